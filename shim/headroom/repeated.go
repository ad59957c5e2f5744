package headroom

import (
	"bytes"
	"slices"
)

// findOrphan returns the empty virtio-mem device of a domain that has no maxMemory, nil
// where there is none. libvirt takes no such domain. It is what virt-launcher asks for
// when it defines a domain for the second time: with the devices of the first definition,
// but its own idea of all else. So the device is one that was added here, and is to be the
// domain's once more.
func findRepeatedDevice(root *element) *element {
	if root.first("maxMemory") != nil {
		return nil
	}
	found := slices.DeleteFunc(root.first("devices").all("memory"), func(e *element) bool { return !isVirtioMem(e) })
	if len(found) != 1 {
		return nil
	}
	target := found[0].first("target")
	if target.first("requested").value() != "0" || target.first("size") == nil || target.first("block") == nil {
		return nil
	}
	return found[0]
}

func isVirtioMem(e *element) bool { return e.attr("model") == "virtio-mem" }

// memoryDevices are those of the domain without an orphan.
func (m *machine) memoryDevices() []*element {
	return slices.DeleteFunc(m.root.first("devices").all("memory"), func(e *element) bool { return e == m.repeatedDevice })
}

// without is the text with an element blanked out: what is after it stays in its line.
func blankOut(text []byte, e *element) []byte {
	if e == nil {
		return text
	}
	blank := bytes.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return ' '
	}, text[e.start:e.end])
	return slices.Concat(text[:e.start], blank, text[e.end:])
}
