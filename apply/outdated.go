package apply

import (
	"context"
	"errors"
)

// A write waits for its place in its class, and behind the claims of a burst that may
// take seconds. What it was decided on may be over by then: its claim was deleted, its pod
// ends. Such a write would only lose.

// ErrOutdated says that a write was not sent, for what it was decided on did not hold any
// more when its place came. It is a kind of ErrLost: look again, and nothing has to be
// read for it.
var ErrOutdated = errors.New("what it was decided on holds no more")

type whileKey struct{}

// While returns a context whose writes are sent only if something still holds when
// their place has come.
func While(ctx context.Context, holds func() bool) context.Context {
	return context.WithValue(ctx, whileKey{}, holds)
}

// wanted reports whether a write of the context is still to be sent.
func wanted(ctx context.Context) bool {
	still, ok := ctx.Value(whileKey{}).(func() bool)
	return !ok || still()
}
