package plugin

import (
	"context"
	"encoding/binary"
	"net"
	"testing"
)

// sink is a connection that takes everything.
type sink struct{ net.Conn }

func (sink) Write(b []byte) (int, error) { return len(b), nil }

// A request is answered once the connection has taken the last byte of the answer.
func TestInflightCountsWholeAnswers(t *testing.T) {
	f := &inflight{}
	conn, _, err := f.Handshake(context.Background(), sink{})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(step string, want bool) {
		t.Helper()
		answered, _ := f.none()
		select {
		case <-answered:
			if !want {
				t.Errorf("%s: all is answered", step)
			}
		default:
			if want {
				t.Errorf("%s: something is open", step)
			}
		}
	}
	write := func(b []byte) {
		t.Helper()
		if _, err := conn.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	frame := make([]byte, frameHeader+5000)
	binary.BigEndian.PutUint32(frame, 5000)
	empty := make([]byte, frameHeader)

	expect("before any request", true)
	for range 2 {
		if _, err := f.intercept(context.Background(), nil, nil, func(context.Context, func(any) error) (any, error) {
			expect("in a handler", false)
			return nil, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	expect("after the handlers", false)
	write(frame[:4096])
	expect("with a part of the first answer", false)
	write(frame[4096:])
	expect("with the first answer", false)
	write(empty)
	expect("with both answers", true)
}
