package doctor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Constants of sock_diag(7), from linux/unix_diag.h.
const (
	sockDiagByFamily = 20
	showName         = 1 << 0
	showPeer         = 1 << 2
	attrName         = 0
	attrPeer         = 2
	requestSize      = 24 // struct unix_diag_req
	headSize         = 16 // struct unix_diag_msg, before the attributes
)

// peerInodes returns the inodes of the client sockets of a listening socket. Only sock_diag
// connects the two ends of a unix socket.
func peerInodes(socket string) (map[uint32]bool, error) {
	answers, err := unixSockets()
	if err != nil {
		return nil, fmt.Errorf("list unix sockets (sock_diag): %w", err)
	}
	resolved, err := filepath.EvalSymlinks(socket)
	if err != nil {
		resolved = socket
	}
	inodes := map[uint32]bool{}
	for _, answer := range answers {
		name, peer, err := parseSocket(answer.Data)
		if err != nil {
			return nil, fmt.Errorf("list unix sockets (sock_diag): %w", err)
		}
		if peer != 0 && (name == socket || name == resolved) {
			inodes[peer] = true
		}
	}
	return inodes, nil
}

// unixSockets lists all unix sockets of this network namespace.
func unixSockets() (answers []netlink.Message, err error) {
	conn, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	request := make([]byte, requestSize)
	request[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(request[4:], 0xffffffff) // in all states
	binary.NativeEndian.PutUint32(request[12:], showName|showPeer)
	return conn.Execute(netlink.Message{
		Header: netlink.Header{Type: sockDiagByFamily, Flags: netlink.Request | netlink.Dump},
		Data:   request,
	})
}

// parseSocket reads a socket's path and the inode of its peer. A socket accepted at a path
// has that path. Both values may be absent.
func parseSocket(data []byte) (name string, peer uint32, err error) {
	if len(data) < headSize {
		return "", 0, fmt.Errorf("an answer of %d bytes, want at least %d", len(data), headSize)
	}
	attributes, err := netlink.NewAttributeDecoder(data[headSize:])
	if err != nil {
		return "", 0, err
	}
	for attributes.Next() {
		switch attributes.Type() {
		case attrName:
			// A final zero byte is optional.
			name = strings.TrimRight(string(attributes.Bytes()), "\x00")
		case attrPeer:
			peer = attributes.Uint32()
		}
	}
	return name, peer, attributes.Err()
}
