package plugin

import (
	"net"

	"golang.org/x/sys/unix"
)

// listenerPID returns the pid of the process that listens on a Unix socket, which is the runtime.
// 0: unknown, because it is in a pid namespace that this process does not see.
func listenerPID(conn net.Conn) int {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	_ = raw.Control(func(fd uintptr) {
		peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			pid = int(peer.Pid)
		}
	})
	return pid
}
