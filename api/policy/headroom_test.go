package policy

import "testing"

// An absent field of headroom is 0, independent of the other.
func TestParseHeadroom(t *testing.T) {
	for text, want := range map[string]Headroom{
		"":                                       {},
		"headroom: {}":                           {},
		"headroom: {memoryCapacity: 1Mi}":        {Memory: 1 << 20},
		"headroom: {memoryCapacity: '1.5Gi'}":    {Memory: 1536 << 20},
		"headroom: {memoryCapacity: 1073741824}": {Memory: 1 << 30},
		"headroom: {memoryCapacity: 4Ei}":        {Memory: 1 << 62},
		"headroom: {cpuCapacity: 1}":             {CPUs: 1},
		"headroom: {cpuCapacity: 8192}":          {CPUs: 8192},
	} {
		p, err := Parse([]byte(head + text))
		if err != nil || p.Headroom != want {
			t.Errorf("%s: %+v, %v, want %+v", text, p, err, want)
		}
	}
}

func refusedInHeadroom() (all []refusal) {
	in := func(fields, want string) {
		all = append(all, refusal{head + "headroom: {" + fields + "}", "headroom." + want})
	}
	in("memory: 64Gi", "memory: unknown field")
	in("memoryCapacity: 1.5Mi",
		`memoryCapacity: "1.5Mi": want whole MiB, from 1Mi to 4Ei; leave it out for the node's `+
			`memory`)
	in("memoryCapacity: 500M", `memoryCapacity: "500M": want whole MiB`)
	in("memoryCapacity: 64", "memoryCapacity: 64: want whole MiB")
	in("memoryCapacity: 5Ei", `memoryCapacity: "5Ei": want whole MiB`)
	for _, wrong := range []string{"0", "-1Gi", "lots", "''", "1e9", "[1Gi]", "true", "9Ei"} {
		in("memoryCapacity: "+wrong, "memoryCapacity: ")
	}
	in("cpuCapacity: 8193", "cpuCapacity: 8193: want a number of vCPUs between 1 and 8192; leave "+
		"it out for the node's CPUs")
	for _, wrong := range []string{"0", "-1", "1.5", "'16'", "lots", "''", "1.5e0", "[1]", "true",
		"99999999999999999999"} {
		in("cpuCapacity: "+wrong, "cpuCapacity: ")
	}
	return append(all, refusal{head + "headroom: 64Gi", "headroom: string: want a mapping"})
}
