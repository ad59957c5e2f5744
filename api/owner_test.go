package api

import (
	"strings"
	"testing"
)

func TestParseOwner(t *testing.T) {
	for text, problem := range map[string]string{
		"vms/vm-1.a/3f4c1f0e-8a63":               "",
		"kube-system/etcd/0aF":                   "",
		"":                                       "NAMESPACE/NAME/UID",
		"vms/vm-1":                               "NAMESPACE/NAME/UID",
		"vms/vm-1/1/2":                           "NAMESPACE/NAME/UID",
		"$(POD_NAMESPACE)/vm-1/1":                "namespace \"$(POD",
		"vms/VM/1":                               `name "VM"`,
		"vms/" + strings.Repeat("a", 254) + "/1": "name",
		"vms/vm-1/":                              `UID ""`,
		"vms/vm-1/..":                            `UID ".."`,
		"vms/vm-1/a'b":                           `UID "a'b"`,
		"vms/vm-1/" + strings.Repeat("a", 65):    "64",
	} {
		got, err := ParseOwner(text)
		if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: %+v, %v, want error %q", text, got, err, problem)
		}
		if err == nil && got.Namespace+"/"+got.Name+"/"+got.UID != text {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
