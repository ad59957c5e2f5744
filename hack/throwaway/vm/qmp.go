package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"

	"golang.org/x/sys/unix"
)

// control is a connection to QEMU's control socket (QMP, QEMU's docs/interop/qmp-spec). Its methods
// are not safe for concurrent use.
type control struct {
	net.Conn
	in *json.Decoder
}

// dialControl waits for the socket of a QEMU that has just been started.
func dialControl(ctx context.Context, path string) (*control, error) {
	for {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", path)
		if err == nil {
			c := &control{Conn: conn, in: json.NewDecoder(conn)}
			if err := c.greet(ctx); err != nil {
				return nil, errors.Join(err, c.Close())
			}
			return c, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ECONNREFUSED) {
			return nil, fmt.Errorf("dialling QEMU: %w", err)
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

func (c *control) greet(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	var greeting struct{ QMP json.RawMessage }
	if err := c.in.Decode(&greeting); err != nil {
		return fmt.Errorf("reading QEMU's greeting: %w", errors.Join(err, context.Cause(ctx)))
	}
	return c.execute(ctx, "qmp_capabilities", nil, nil)
}

// execute runs a command and decodes its answer into result, unless that is nil. It ignores events.
func (c *control) execute(
	ctx context.Context, command string, args map[string]any, result any,
) error {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	request := map[string]any{"execute": command}
	if len(args) > 0 {
		request["arguments"] = args
	}
	if err := json.NewEncoder(c).Encode(request); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	for {
		var answer struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		if err := c.in.Decode(&answer); err != nil {
			return fmt.Errorf("%s: %w", command, errors.Join(err, context.Cause(ctx)))
		}
		switch {
		case answer.Error != nil:
			return fmt.Errorf("%s: %s", command, answer.Error.Desc)
		case answer.Return != nil && result != nil:
			return json.Unmarshal(answer.Return, result)
		case answer.Return != nil:
			return nil
		}
	}
}
