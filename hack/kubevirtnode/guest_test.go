package kubevirtnode

import (
	"bytes"
	"hash/crc32"
	"testing"
)

// KubeVirt's field for the checksum is an int32.
func TestPad(t *testing.T) {
	for n := range 64 {
		content := bytes.Repeat([]byte{byte(n)}, n)
		got := pad(bytes.Clone(content))
		if !bytes.HasPrefix(got, content) || int32(crc32.ChecksumIEEE(got)) < 0 {
			t.Errorf("%v became %v", content, got)
		}
	}
}
