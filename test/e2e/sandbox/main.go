// Command sandbox is what runs in the sandboxes of package e2e: a process that can be told
// from every other one, also from one of the same image that took its place.
//
//	sandbox               serves until it is asked to end, in the pod and at port 8080
//	sandbox who           asks the process that serves in this pod who it is
//	sandbox ask ADDRESS   asks the process that serves there who it is: "refused" if none does, "silent" if it waits for a question
//	sandbox write F TEXT  writes a file
//	sandbox read F        reads it
//	sandbox pause         does nothing until it is asked to end: what holds a pod together
//
// Its image holds nothing else, so all that `kubectl exec` can do in it is here.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// socket is abstract, so it needs no file system that may be written.
const socket = "@sandbox"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 0:
		return serve()
	case len(args) == 1 && args[0] == "pause":
		ctx, stop := untilAsked()
		defer stop()
		<-ctx.Done()
		return nil
	case len(args) == 1 && args[0] == "who":
		return who()
	case len(args) == 2 && args[0] == "ask":
		return ask(args[1])
	case len(args) == 2 && args[0] == "read":
		text, err := os.ReadFile(args[1])
		fmt.Print(string(text))
		return err
	case len(args) == 3 && args[0] == "write":
		return os.WriteFile(args[1], []byte(args[2]), 0o644)
	}
	return fmt.Errorf("what is %q?", args)
}

func untilAsked() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
}

// serve tells whoever asks the version of the image and what makes this process itself.
func serve() error {
	ctx, stop := untilAsked()
	defer stop()
	me := fmt.Sprintf("version %s, process %s\n", os.Getenv("VERSION"), rand.Text())
	at, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	open, err := net.Listen("tcp", ":8080")
	if err != nil {
		return err
	}
	fmt.Print(me)
	ended := make(chan error, 2)
	for _, l := range []net.Listener{at, open} {
		context.AfterFunc(ctx, func() { l.Close() })
		go func() { ended <- tell(l, me) }()
	}
	if err := <-ended; ctx.Err() == nil {
		return err
	}
	return nil
}

// tell answers every connection with a text until the listener is closed.
func tell(at net.Listener, text string) error {
	for {
		asked, err := at.Accept()
		if err != nil {
			return err
		}
		_, err = io.WriteString(asked, text)
		asked.Close()
		if err != nil {
			fmt.Fprintln(os.Stderr, "sandbox:", err)
		}
	}
}

func who() error {
	to, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	defer to.Close()
	_, err = io.Copy(os.Stdout, to)
	return err
}

// ask prints what an address says of itself, or how it takes a connection.
func ask(address string) error {
	to, err := net.DialTimeout("tcp", address, time.Second)
	if errors.Is(err, syscall.ECONNREFUSED) {
		fmt.Println("refused")
		return nil
	}
	if err != nil {
		return err
	}
	defer to.Close()
	if err := to.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, to)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		fmt.Println("silent")
		return nil
	}
	return err
}
