package doctor

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerPID returns the pid of the listening process, or 0.
func peerPID(conn net.Conn) (pid int) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return 0
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err ==
			nil {
			pid = int(peer.Pid)
		}
	})
	return pid
}
