package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// NotRunningError means that no agent listens on the socket.
type NotRunningError struct {
	Socket string
	Err    error
}

func (e *NotRunningError) Error() string {
	return fmt.Sprintf("mooring-agent is not running at %s (%v); start its unit with "+
		"`systemctl start mooring-agent`, or check its pod on this node: `kubectl -n mooring-system get pods -o wide`",
		e.Socket, e.Err)
}

func (e *NotRunningError) Unwrap() error { return e.Err }

// PermissionError means that the caller may not open the agent's socket.
type PermissionError struct {
	Socket string
	Err    error
}

func (e *PermissionError) Error() string {
	return fmt.Sprintf("only root may query the mooring-agent at %s: retry with sudo", e.Socket)
}

func (e *PermissionError) Unwrap() error { return e.Err }

// NotFoundError means that the requested object does not exist on this node.
type NotFoundError struct{ Message string }

func (e *NotFoundError) Error() string { return e.Message }

// explain adds a remedy to the error of a failed connection where one is known.
func (c *Client) explain(err error) error {
	errno, _ := errors.AsType[syscall.Errno](err)
	switch errno {
	case syscall.ENOENT, syscall.ECONNREFUSED:
		return &NotRunningError{Socket: c.socket, Err: errno}
	case syscall.EACCES, syscall.EPERM:
		return &PermissionError{Socket: c.socket, Err: errno}
	}
	return fmt.Errorf("query the agent at %s: %w", c.socket, err)
}

// responseError returns the agent's message of a response with a status other than 200.
func responseError(response *http.Response) error {
	const maxBody = 64 << 10
	var answer agentapi.Error
	err := json.NewDecoder(io.LimitReader(response.Body, maxBody)).Decode(&answer)
	if err != nil || answer.Message == "" {
		answer.Message = "no reason given"
	}
	if response.StatusCode == http.StatusNotFound {
		return &NotFoundError{Message: answer.Message}
	}
	return fmt.Errorf("the agent answered %q: %s", response.Status, answer.Message)
}
