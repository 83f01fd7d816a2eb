// Package apply is the only writer of Kiln. Each of its methods is one request,
// built from the edge or the fact it stands for and sent under one field
// manager, never from an object that was read and changed.
//
// # Managers and scopes
//
// Every field manager has a scope (scopes.go): the fields it may own on one
// kind. Two managers never own the same field, so status and metadata are never
// in each other's way, and forcing an apply takes nothing from anyone but a
// hand. A test holds every configuration that can be built against its scope.
//
// # Guards
//
// A contended move carries the uid and the resourceVersion it was decided on.
// Whoever comes second gets ErrLost and has changed nothing. The sandbox's
// controller reference is the lock of the whole system: adopt and retire are
// guarded applies on it. Moves of a pod's word are guarded the same way, because
// with a uid alone a second leader with an old view could write a word that the
// chart does not allow. The one exception is retired, of a pool member: it is
// right from every state such a pod can be in, and a pod that is starting is
// written by the scheduler and the kubelet at the same time. On a status subresource the server does not check the uid,
// so the resourceVersion is the guard there; a pool's status has none, because
// nothing is decided from it and a person scaling the pool must not collide.
//
// A create is an apply with resourceVersion "1": it creates when the name is
// free and conflicts when it is taken, so a retry after a lost response does no
// harm, and its fields can be removed later by leaving them out.
//
// # Lanes
//
// Writes go through three lanes (lanes.go), each with its own connection: claim,
// warm and background. A lane narrows to a floor while a more urgent one has
// work, and never closes, so nothing starves. Client-side rate limits are off;
// the API server's own fairness is the limit.
package apply
