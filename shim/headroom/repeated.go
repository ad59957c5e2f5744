package headroom

import (
	"bytes"
	"slices"
)

// findRepeatedDevice returns an empty virtio-mem device of a domain without maxMemory, or nil.
// libvirt rejects such a domain. virt-launcher produces it on its second definition: it copies the
// devices of the first definition, and renders the rest anew. So Prepare added the device before,
// and adopts it again.
func findRepeatedDevice(root *element) *element {
	if root.first("maxMemory") != nil {
		return nil
	}
	found := slices.DeleteFunc(
		root.first("devices").all("memory"), func(e *element) bool { return !isVirtioMem(e) },
	)
	if len(found) != 1 {
		return nil
	}
	target := found[0].first("target")
	if target.first("requested").value() != "0" || target.first("size") == nil ||
		target.first("block") == nil {
		return nil
	}
	return found[0]
}

func isVirtioMem(e *element) bool { return e.attr("model") == "virtio-mem" }

// memoryDevices returns the memory devices without the repeated one.
func (m *machine) memoryDevices() []*element {
	return slices.DeleteFunc(
		m.root.first("devices").all("memory"),
		func(e *element) bool { return e == m.repeatedDevice },
	)
}

// blankOut replaces an element by spaces. Line numbers stay the same.
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
