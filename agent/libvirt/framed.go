package libvirt

import (
	"encoding/binary"
	"fmt"
	"net"
)

const (
	// minMessage and maxMessage bound a message of libvirt's protocol, in bytes. The lower bound is
	// length and header, the upper one VIR_NET_MESSAGE_MAX.
	minMessage = 28
	maxMessage = 32 << 20
)

// framed fails a read from a connection at a message with an impossible length. The RPC
// library would allocate any length, and panic at a negative one.
type framed struct {
	net.Conn
	length []byte // the bytes of the next message's length, so far
	left   int    // unread bytes of the current message
}

// Read implements [net.Conn]. It never reads from two messages at once.
func (f *framed) Read(p []byte) (int, error) {
	if f.left == 0 {
		p = p[:min(len(p), 4-len(f.length))]
	} else {
		p = p[:min(len(p), f.left)]
	}
	n, err := f.Conn.Read(p)
	if f.left > 0 {
		f.left -= n
		return n, err
	}
	if f.length = append(f.length, p[:n]...); len(f.length) < 4 {
		return n, err
	}
	length := binary.BigEndian.Uint32(f.length)
	if length < minMessage || length > maxMessage {
		return 0, fmt.Errorf("message of %d bytes: want %d to %d", length, minMessage, maxMessage)
	}
	f.length, f.left = f.length[:0], int(length)-4
	return n, err
}
