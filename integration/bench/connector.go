package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Messages to and from the kernel's process events connector: struct nlmsghdr, struct cn_msg, and
// an operation or a struct proc_event (linux/cn_proc.h).
const (
	connectorIndex  = 1 // CN_IDX_PROC and CN_VAL_PROC, also the group
	connectorListen = 1 // PROC_CN_MCAST_LISTEN
	connectorFork   = 1 // PROC_EVENT_FORK
	cnHeader        = 20
	procEventData   = 16
)

// connector listens to the kernel's process events connector, like tools without eBPF. It counts
// the children of one process.
type connector struct {
	parent int
	fd     int
	count  atomic.Int64
	done   chan error
	ending atomic.Bool
}

func (c *connector) start(f *forker) (err error) {
	c.parent, c.done = f.pid(), make(chan error, 1)
	c.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC,
		unix.NETLINK_CONNECTOR)
	if err != nil {
		return fmt.Errorf("proc connector: %w", err)
	}
	if err := c.subscribe(); err != nil {
		return errors.Join(fmt.Errorf("proc connector: %w", err), unix.Close(c.fd))
	}
	go func() { c.done <- c.read() }()
	return nil
}

func (c *connector) subscribe() error {
	if err := unix.Bind(c.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK,
		Groups: connectorIndex}); err != nil {
		return err
	}
	// The time-out lets read notice the end.
	if err := unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO,
		&unix.Timeval{Usec: 20_000}); err != nil {
		return err
	}
	return unix.Sendto(c.fd, listenMessage(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

func listenMessage() []byte {
	order := binary.NativeEndian
	m := make([]byte, unix.NLMSG_HDRLEN+cnHeader+4)
	order.PutUint32(m, uint32(len(m)))
	order.PutUint16(m[4:], unix.NLMSG_DONE)
	cn := m[unix.NLMSG_HDRLEN:]
	order.PutUint32(cn, connectorIndex)
	order.PutUint32(cn[4:], connectorIndex)
	order.PutUint16(cn[16:], 4)
	order.PutUint32(cn[cnHeader:], connectorListen)
	return m
}

// read reads until stop. The count is lower if the kernel dropped events.
func (c *connector) read() error {
	buffer := make([]byte, 4096)
	for !c.ending.Load() {
		n, _, err := unix.Recvfrom(c.fd, buffer, 0)
		switch {
		case err == nil && forkOf(buffer[:n]) == c.parent:
			c.count.Add(1)
		case err == nil, errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR),
			errors.Is(err, unix.ENOBUFS):
		default:
			return fmt.Errorf("proc connector: %w", err)
		}
	}
	return nil
}

// forkOf returns the parent of a new process, 0 for other messages. A new thread is not a child.
func forkOf(message []byte) (parent int) {
	order := binary.NativeEndian
	const data = unix.NLMSG_HDRLEN + cnHeader + procEventData
	if len(message) < data+16 || order.Uint32(message[unix.NLMSG_HDRLEN+cnHeader:]) !=
		connectorFork {
		return 0
	}
	child, group := order.Uint32(message[data+8:]), order.Uint32(message[data+12:])
	if child != group {
		return 0
	}
	return int(order.Uint32(message[data+4:]))
}

func (c *connector) observed() int { return int(c.count.Load()) }

func (c *connector) stop() error {
	c.ending.Store(true)
	return errors.Join(<-c.done, unix.Close(c.fd))
}
