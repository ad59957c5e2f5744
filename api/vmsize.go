package api

import (
	"fmt"
	"strings"
	"time"
)

// ResizeStatusKey is the annotation of a VirtualMachine with its [ResizeStatus] as JSON.
// mooring-controller writes it.
const ResizeStatusKey = "status.resize" + Suffix

// ResizeRequestKey is an annotation of a VirtualMachine that names the request for its size, with
// up to 63 letters, digits and hyphens. The [ResizeStatus] repeats it, so a client recognizes the
// status of its own request.
const ResizeRequestKey = "request.resize" + Suffix

const maxRequestName = 63

// ResizeReason is the cause of a [ResizeStatus]: a stable word for programs.
type ResizeReason string

// The reasons of a ResizeStatus.
const (
	ResizeInvalid    ResizeReason = "Invalid"       // the annotations are unreadable
	ResizeNotRunning ResizeReason = "NotRunning"    // the VM has no running launcher
	ResizeMigrating  ResizeReason = "Migrating"     // a migration or KubeVirt's live update runs
	ResizeRefused    ResizeReason = "Refused"       // the VM cannot have the size
	ResizeNoQuota    ResizeReason = "QuotaExceeded" // a quota of the namespace lacks room
	ResizeNoNode     ResizeReason = "NodeFull"      // kubelet has not accepted the pod's resources
	ResizeUnderWay   ResizeReason = "Resizing"      // the VM changes its size
	ResizeFailed     ResizeReason = "Failed"        // mooring-shim reports a failure, and retries
	ResizeDone       ResizeReason = "Resized"       // the VM has the size

	// ResizeNoEstimate: the resources of a launcher with the size cannot be computed.
	ResizeNoEstimate ResizeReason = "EstimateFailed"

	// ResizeKept: the VM keeps a size after the removal of its annotation.
	ResizeKept ResizeReason = "SizeKept"

	// ResizeQuotaUnknown: the quotas of the namespace are unreadable.
	ResizeQuotaUnknown ResizeReason = "QuotaUnknown"

	// ResizeAPIError: requests to the API server fail, so the actual size is unknown.
	ResizeAPIError ResizeReason = "APIError"
)

// ResizeReasons returns all reasons of a ResizeStatus.
func ResizeReasons() []ResizeReason {
	return []ResizeReason{ResizeInvalid, ResizeNotRunning, ResizeMigrating, ResizeRefused,
		ResizeNoQuota, ResizeNoNode, ResizeUnderWay, ResizeFailed, ResizeDone, ResizeNoEstimate,
		ResizeQuotaUnknown, ResizeKept, ResizeAPIError}
}

// ResizeStatus compares the desired size of a VirtualMachine with its actual size.
type ResizeStatus struct {
	Desired ResizeAmounts  `json:"desired"`
	Actual  *ResizeAmounts `json:"actual,omitempty"` // as the guest has confirmed it; nil: unknown
	Reason  ResizeReason   `json:"reason"`
	Message string         `json:"message"`
	Request string         `json:"request,omitempty"` // the value of ResizeRequestKey

	// Kept is the size of dimensions without annotation that differ from the template, because the
	// VM had a size by annotation. It ends with the next start of the VM.
	Kept ResizeAmounts `json:"kept,omitzero"`

	// Since is the start of this reason for this desired size, or with [ResizeAPIError] the time of
	// the first failure. It is in whole seconds; zero: unknown.
	Since time.Time `json:"since,omitzero"`
}

// ResizeAmounts are the vCPUs and the memory of a VM. Zero is no request.
type ResizeAmounts struct {
	VCPUs  int    `json:"vcpus,omitempty"`
	Memory string `json:"memory,omitempty"` // a quantity such as 8Gi
}

// String returns text such as "4 vCPUs, 8Gi of memory".
func (a ResizeAmounts) String() string {
	switch {
	case a.VCPUs == 0:
		return a.Memory + " of memory"
	case a.Memory == "":
		return fmt.Sprintf("%d vCPUs", a.VCPUs)
	}
	return fmt.Sprintf("%d vCPUs, %s of memory", a.VCPUs, a.Memory)
}

// AmountsOf returns the vCPUs and the memory of a size.
func AmountsOf(s Size) ResizeAmounts {
	a := ResizeAmounts{VCPUs: s.VCPUs}
	if s.Memory != 0 {
		a.Memory = s.Memory.String()
	}
	return a
}

// VMSizeAnnotations returns the annotations of a VirtualMachine about its size, valid or not; nil:
// none.
func VMSizeAnnotations(annotations map[string]string) map[string]string {
	var own map[string]string
	for key, value := range annotations {
		if !isSizeKey(key) && key != ResizeStatusKey {
			continue
		}
		if own == nil {
			own = map[string]string{}
		}
		own[key] = value
	}
	return own
}

// ParseVMSize reads the desired size of a VirtualMachine from [VCPUsKey] and [ResizeMemoryKey], and
// checks [ResizeRequestKey]. All other keys below "resize.mooring.dev", and scopes, are errors. The
// error joins all faults, each an [*InvalidError].
func ParseVMSize(annotations map[string]string) (Size, error) {
	var s Size
	var faults []*InvalidError
	for key, value := range annotations {
		var err error
		switch {
		case !isSizeKey(key):
		case key == VCPUsKey:
			s.VCPUs, err = parseVCPUs(value)
		case key == ResizeMemoryKey:
			s.Memory, err = parsePositiveBytes[Bytes](value)
		case key == ResizeRequestKey:
			err = checkRequestName(value)
		default:
			err = invalid(value, "a VirtualMachine has no such size: want %s or %s", VCPUsKey,
				ResizeMemoryKey)
		}
		if err != nil {
			faults = append(faults, keyed(key, value, err))
		}
	}
	if len(faults) > 0 {
		return Size{}, joinFaults(faults)
	}
	return s, nil
}

// ResizeRequest returns the valid value of [ResizeRequestKey]; "": none.
func ResizeRequest(annotations map[string]string) string {
	name := annotations[ResizeRequestKey]
	if checkRequestName(name) != nil {
		return ""
	}
	return name
}

func checkRequestName(s string) error {
	other := strings.IndexFunc(s, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if s == "" || len(s) > maxRequestName || other >= 0 {
		return invalid(s, "want 1 to %d letters, digits and hyphens", maxRequestName)
	}
	return nil
}

func isSizeKey(key string) bool {
	return strings.HasSuffix(baseKey(key), resizeSuffix) && key != ResizeStatusKey
}
