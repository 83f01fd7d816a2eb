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

// turn waits for the turn of a write that has its place, and says whether it is still to
// be sent. What it returns ends the turn.
func (a *Applier) turn(ctx context.Context, w write) (end func(answer any), err error) {
	end, err = a.turns.take(ctx, w)
	if holds, ok := ctx.Value(whileKey{}).(func() bool); ok && err == nil && !holds() {
		err = errors.Join(ErrLost, ErrOutdated)
	}
	return end, err
}
