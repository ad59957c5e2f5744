package channel

import (
	"io"
	"net"
)

// Forward makes an address of the node lead to an address of this machine, until the closer is
// closed or the node is lost.
func (c *Client) Forward(address, to string) (io.Closer, error) {
	l, err := c.Listen(address)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			inside, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				outside, err := net.Dial("tcp", to)
				if err != nil {
					_ = inside.Close()
					return
				}
				Join(inside, outside)
			}()
		}
	}()
	return l, nil
}

// Join copies in both directions until one connection ends, and closes both.
func Join(a, b net.Conn) {
	defer a.Close()
	defer b.Close()
	ended := make(chan struct{}, 2)
	for _, ends := range [][2]net.Conn{{a, b}, {b, a}} {
		go func() {
			_, _ = io.Copy(ends[0], ends[1])
			ended <- struct{}{}
		}()
	}
	<-ended
}
