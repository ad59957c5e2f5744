package quota_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mooring-vm/mooring/quota"
)

func TestFormattedAmounts(t *testing.T) {
	for _, test := range []struct {
		name            corev1.ResourceName
		amount          string
		atLeast, atMost string
	}{
		{"limits.memory", "9228748544", "8802Mi", "8801Mi"}, // a launcher with KubeVirt's overhead
		{"limits.memory", "9Gi", "9Gi", "9Gi"},
		{"requests.hugepages-2Mi", "500M", "477Mi", "476Mi"},
		{"memory", "0", "0", "0"},
		{"memory", "1000", "1Mi", "1k"},
		{"memory", "-1000", "-1k", "-1k"},
		{"memory", "9223372036854775807", "9223372036854775807", "9223372036854775807"},
		{"limits.cpu", "1500m", "1500m", "1500m"},
		{"pods", "1000000000", "1G", "1G"},
		{"requests.nvidia.com/memory", "1048577", "1048577", "1048577"},
	} {
		q := resource.MustParse(test.amount)
		if got := quota.AtLeast(test.name, q); got != test.atLeast {
			t.Errorf("AtLeast(%s, %s) = %s, want %s", test.name, test.amount, got, test.atLeast)
		}
		if got := quota.AtMost(test.name, q); got != test.atMost {
			t.Errorf("AtMost(%s, %s) = %s, want %s", test.name, test.amount, got, test.atMost)
		}
	}
}
