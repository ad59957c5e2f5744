package guard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// NewNamespace returns the handler for UPDATE of Namespaces, without their status. For the
// annotation of a quota manager it refuses
//
//   - a change or removal while a quota under the manager has reservations, except for the object
//     of an ended pod (see [quota.BlocksEdits]);
//   - a limit lowered below the use;
//
// and for the annotation of the maintenance share
//
//   - an unreadable value;
//   - a different share during reservations;
//   - a share that leaves VMs less than they use.
//
// Changes of a namespace in deletion pass.
func NewNamespace(c Config) admission.Handler {
	return newGuard(c, "namespaces", Config.judgeNamespace)
}

func (c Config) judgeNamespace(ctx context.Context, r admission.Request) error {
	was, is := &corev1.Namespace{}, &corev1.Namespace{}
	if err := decode(r.OldObject, was); err != nil {
		return err
	}
	if err := decode(r.Object, is); err != nil {
		return err
	}
	shared := slices.ContainsFunc(c.shareAnnotations(),
		func(key string) bool { return was.Annotations[key] != is.Annotations[key] })
	managed := was.Annotations[c.Quota.ManagerAnnotation] !=
		is.Annotations[c.Quota.ManagerAnnotation]
	if terminating(was) || terminating(is) || !shared && !managed {
		return nil
	}
	if shared {
		if _, err := quota.MaintenanceOf(is, c.Quota); err != nil {
			return refuse("namespace %s: %v", is.Name, err)
		}
	}
	s, err := c.read(ctx, is.Name)
	if err != nil {
		return err
	}
	s.Namespace = was
	if shared {
		if err := c.judgeShare(s, is); err != nil {
			return err
		}
	}
	if managed {
		return c.judgeManaged(s, is)
	}
	return nil
}

// judgeShare checks a change of the maintenance share.
func (c Config) judgeShare(s quota.Snapshot, is *corev1.Namespace) error {
	was, unreadable := quota.MaintenanceOf(s.Namespace, c.Quota)
	becomes, err := quota.MaintenanceOf(is, c.Quota)
	if err != nil || unreadable != nil || was == becomes {
		return err
	}
	if holders := blocking(s.Reservations); len(holders) > 0 {
		return refuseReserved("the maintenance share of namespace "+is.Name+" cannot be changed",
			holders)
	}
	before, _ := quota.Accounts(s, c.Quota)
	s.Namespace = is
	after, _ := quota.Accounts(s, c.Quota)
	return checkVMShares(is.Name, before, after)
}

// checkVMShares refuses a share that leaves VMs less than before and less than their use.
func checkVMShares(namespace string, before, after []quota.Account) error {
	was := map[string]corev1.ResourceList{}
	for _, a := range before {
		was[a.Quota.Name] = vmLimits(a)
	}
	var low []string
	for _, a := range after {
		if under, err := quota.FallsUnder(v1alpha1.ReservedPod{Role: v1alpha1.RoleLauncher},
			a.Quota); err != nil || !under {
			continue
		}
		if of := tooLow(a.Quota.Status.Used, was[a.Quota.Name], a.Shares.VM); len(of) > 0 {
			low = append(low, fmt.Sprintf("ResourceQuota %s: %s", a.Quota.Name,
				strings.Join(of, "; ")))
		}
	}
	if len(low) == 0 {
		return nil
	}
	return refuse("the maintenance share of namespace %s would leave too little for VMs: %s. "+
		"Stop VMs or other pods first, or choose a smaller share", namespace,
		strings.Join(low, "; "))
}

// vmLimits returns the limits for pods other than migration targets.
func vmLimits(a quota.Account) corev1.ResourceList {
	all := maps.Clone(a.Base)
	maps.Copy(all, a.Shares.VM)
	return all
}

// judgeManaged checks the effect of a manager's annotation on its quotas.
func (c Config) judgeManaged(s quota.Snapshot, is *corev1.Namespace) error {
	removed := is.Annotations[c.Quota.ManagerAnnotation] == ""
	accounts, _ := quota.Accounts(s, c.Quota)
	for _, a := range accounts {
		if a.OptedOut || a.Quota.Labels[c.Quota.ManagerLabel] != "true" {
			continue
		}
		becomes, err := quota.Base(a.Quota, is, c.Quota)
		same := err == nil && !removed && equality.Semantic.DeepEqual(a.Base, becomes)
		if holders := blocking(a.Reservations); len(holders) > 0 && !same {
			return refuseReserved("annotation "+c.Quota.ManagerAnnotation+" of namespace "+is.Name+
				" cannot be changed", holders)
		}
		if err != nil {
			return err
		}
		if err := refuseLowered(a, a.Base, becomes); err != nil {
			return err
		}
	}
	return nil
}

// shareAnnotations returns the two annotations read by quota.MaintenanceOf.
func (c Config) shareAnnotations() []string {
	return []string{quota.MaintenanceAnnotation, c.Quota.Prefix + quota.MaintenanceName}
}
