package vm

import (
	"strings"
	"testing"
)

// Both ends of a cable have one socket, one end listens, and the addresses differ.
func TestLink(t *testing.T) {
	listening, connecting := Link{Socket: "/s,1", Listens: true}, Link{Socket: "/s,1"}
	for _, l := range []Link{listening, connecting} {
		args := strings.Join(Config{Link: &l}.args(), " ")
		for _, want := range []string{"addr.path=/s,,1", "mac=" + l.MAC()} {
			if !strings.Contains(args, want) {
				t.Errorf("%+v: %q is not in %s", l, want, args)
			}
		}
		if strings.Contains(args, "server=on") != l.Listens {
			t.Errorf("%+v: got %s", l, args)
		}
	}
	if listening.MAC() == connecting.MAC() {
		t.Errorf("both ends have the address %s", listening.MAC())
	}
	if args := strings.Join((Config{}).args(), " "); strings.Contains(args, "id=link") {
		t.Errorf("a node without a cable has one: %s", args)
	}
}
