package vm

// Link is one end of a network cable between two nodes, which appears as a second interface. One
// end listens, and the other one connects. Either may boot first.
type Link struct {
	// Socket is the path of the cable's Unix socket, of 107 bytes at most.
	Socket  string
	Listens bool
}

// MAC is the address of the node's interface.
func (l *Link) MAC() string {
	if l.Listens {
		return "52:54:00:4c:00:01"
	}
	return "52:54:00:4c:00:02"
}

func (l *Link) args() []string {
	end := "server=off,reconnect-ms=1000"
	if l.Listens {
		end = "server=on"
	}
	return []string{
		"-netdev", "stream,id=link," + end + ",addr.type=unix,addr.path=" + escape(l.Socket),
		"-device", "virtio-net-pci,netdev=link,romfile=,mac=" + l.MAC(),
	}
}
