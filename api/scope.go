package api

import (
	"strings"
)

// ours reports whether a key is under Mooring's suffix. Upper case counts, too, so that such a key
// causes an error.
func ours(key string) bool {
	domain, _, _ := strings.Cut(strings.ToLower(key), "/")
	return strings.HasSuffix("."+domain, Suffix)
}

// baseKey returns the key without its scope.
func baseKey(key string) string {
	base, _, _ := strings.Cut(key, "/")
	return base
}

// checkKey returns the fault of a key under Mooring's suffix, or nil.
func checkKey(key, value string) *InvalidError {
	base, scope, scoped := strings.Cut(key, "/")
	podWide, err := lookupKey(base)
	if err == nil && scoped {
		err = checkScope(base, scope, podWide)
	}
	if err != nil {
		return keyed(key, value, err)
	}
	return nil
}

// checkScope returns the fault in the part of a key after the slash, or nil.
func checkScope(base, scope string, podWide bool) error {
	name, forContainer := strings.CutPrefix(scope, containerScope)
	switch {
	case scope == podScope:
		return nil
	case podWide:
		return invalid(scope, "the key concerns the pod as a whole: want %s or %[1]s/pod", base)
	case !forContainer:
		return invalid(scope, "unknown scope: want %s, %[1]s/pod or %[1]s/container.NAME", base)
	case len(name) > MaxScopedContainerName:
		return invalid(scope, "container names over %d characters do not fit a key: use %s/pod",
			MaxScopedContainerName, base)
	}
	return checkContainerName(name)
}

// podWide reads the effective value of a key for the pod as a whole. Any other scope of the key is
// an error.
func podWide(annotations map[string]string, base string) (key, value string, ok bool, err error) {
	var faults []*InvalidError
	for k, v := range annotations {
		if baseKey(k) != base {
			continue
		}
		if fault := checkKey(k, v); fault != nil {
			faults = append(faults, fault)
		}
	}
	key, value, ok = Effective(annotations, base, "")
	return key, value, ok, joinFaults(faults)
}

// Effective returns the annotation that holds for a container, by NRI's precedence:
// KEY/container.NAME before KEY/pod before KEY. base is the key without scope. The result is the
// key as written, with its scope, and the value; ok is false if the annotations have none of the
// three keys.
func Effective(annotations map[string]string, base, container string) (key, value string, ok bool) {
	if key, value, ok = scoped(annotations, base, containerScope, container); ok {
		return key, value, true
	}
	if key, value, ok = scoped(annotations, base, podScope, ""); ok {
		return key, value, true
	}
	if value, ok = annotations[base]; ok {
		return base, value, true
	}
	return "", "", false
}

// scoped looks up KEY/SCOPE, where the scope ends in name. The agent calls it for each known key and
// new container, and most annotations have no scope: a missing key of usual length costs no memory.
func scoped(
	annotations map[string]string, base, scope, name string,
) (key, value string, ok bool) {
	var buffer [128]byte
	k := append(buffer[:0], base...)
	k = append(k, '/')
	k = append(k, scope...)
	k = append(k, name...)
	if value, ok = annotations[string(k)]; !ok {
		return "", "", false
	}
	return string(k), value, true
}
