//go:build !linux

package doctor

import (
	"context"
	"errors"
	"net"
)

// This package examines Linux nodes. Elsewhere these facts are unknown.

func peerInodes(string) (map[uint32]bool, error) { return nil, errors.ErrUnsupported }

func iommufdUsers() ([]int, error) { return nil, errors.ErrUnsupported }

func peerPID(net.Conn) int { return 0 }

func (hostFS) runVersion(context.Context, string, int) (string, error) {
	return "", errors.ErrUnsupported
}
