package quota

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const mebibyte = 1 << 20

// AtLeast formats an amount for people. It rounds bytes up to whole mebibytes ("8802Mi" for
// 9228748544): a quota with the printed amount is large enough. The controller reads the amounts of
// refused launchers back, see [Rejections].
func AtLeast(name corev1.ResourceName, q resource.Quantity) string {
	return inMebibytes(name, q, mebibyte-1)
}

// AtMost is AtLeast for amounts that a reader may use up or must not exceed. It rounds down.
func AtMost(name corev1.ResourceName, q resource.Quantity) string {
	return inMebibytes(name, q, 0)
}

// inMebibytes leaves amounts as they are that do not count bytes, are negative or are too large for
// an int64.
func inMebibytes(name corev1.ResourceName, q resource.Quantity, roundUp int64) string {
	bytes, ok := q.AsInt64()
	if !ok || !countsBytes(name) || bytes < 0 || bytes > 1<<62 {
		return q.String()
	}
	if roundUp == 0 && bytes < mebibyte {
		return q.String() // not 0
	}
	return resource.NewQuantity((bytes+roundUp)/mebibyte*mebibyte, resource.BinarySI).String()
}

// countsBytes reports whether a resource of a quota is an amount of bytes.
func countsBytes(name corev1.ResourceName) bool {
	base := strings.TrimPrefix(strings.TrimPrefix(string(name), "requests."), "limits.")
	return base == "memory" || base == "storage" || base == "ephemeral-storage" ||
		strings.HasPrefix(base, "hugepages-")
}
