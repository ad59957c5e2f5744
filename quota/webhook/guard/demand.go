package guard

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/estimate"
)

// demand is the launcher that a VM needs, and the content of its namespace to check it against.
type demand struct {
	vm, what string // name, and words for people
	launcher estimate.Launcher
	starts   bool // it has no launcher, or gets a new one

	accounts []quota.Account
	charges  map[string]corev1.ResourceList  // of launchers, by VM
	needs    map[string]v1alpha1.ReservedPod // the next launchers of other VMs, see [sizer.needed]
}

// readDemand reads the demand of a VM that should run. If it already should have run (was is not
// nil), a change that does not make it grow has none. nil: nothing to check.
func (c Config) readDemand(
	ctx context.Context, user string, was, is *kubevirtv1.VirtualMachine, what string,
) (*demand, error) {
	s, err := c.read(ctx, is.Namespace)
	if err != nil || terminating(s.Namespace) || len(s.Quotas) == 0 {
		return nil, err
	}
	cluster, err := c.Cluster(ctx)
	if err != nil || user == cluster.Controller() {
		return nil, err
	}
	z, err := c.newSizer(ctx, s, cluster)
	if err != nil {
		return nil, err
	}
	launcher, err := z.vm(ctx, is)
	if err != nil || was != nil && !z.grows(ctx, was, launcher) {
		return nil, err
	}
	d := &demand{vm: is.Name, what: what, launcher: launcher, starts: was == nil,
		charges: chargesByVM(s)}
	d.accounts, _ = quota.Accounts(s, c.Quota)
	d.needs, err = z.otherVMs(ctx, d)
	return d, err
}

// grows reports whether a launcher needs more than the VM needed before the change.
func (z sizer) grows(
	ctx context.Context, was *kubevirtv1.VirtualMachine, launcher estimate.Launcher,
) bool {
	was.Namespace = z.namespace.Namespace.Name
	before, err := z.vm(ctx, was)
	return err != nil || !isZero(increase(launcher.Pod.Charge, before.Pod.Charge))
}

// otherVMs returns the launchers that the other VMs of the namespace need next.
func (z sizer) otherVMs(
	ctx context.Context, d *demand,
) (map[string]v1alpha1.ReservedPod, error) {
	stored, err := z.readVMs(ctx, z.namespace.Namespace.Name)
	if err != nil {
		return nil, err
	}
	needs := map[string]v1alpha1.ReservedPod{}
	for i := range stored.all {
		vm := &stored.all[i]
		if vm.Name == d.vm {
			continue
		}
		pod, err := z.needed(ctx, vm, stored.instances[vm.Name], len(d.charges[vm.Name]) > 0)
		if err != nil {
			return nil, err
		}
		if pod != nil {
			needs[vm.Name] = *pod
		}
	}
	return needs, nil
}

// wantsLauncher reports whether KubeVirt will create a launcher for a VM without one. A VM that has
// run once, or was stopped from inside, is Stopped and gets none.
func wantsLauncher(vm *kubevirtv1.VirtualMachine) bool {
	if vm.DeletionTimestamp != nil || vm.Spec.Template == nil || !shouldRun(vm) {
		return false
	}
	strategy, _ := vm.RunStrategy() // shouldRun is false for an invalid one
	return strategy == kubevirtv1.RunStrategyAlways || startRequested(vm) ||
		vm.Status.PrintableStatus != kubevirtv1.VirtualMachineStatusStopped
}

// chargesByVM returns the largest charge of each resource among a VM's launchers. During a
// migration there are two.
func chargesByVM(s quota.Snapshot) map[string]corev1.ResourceList {
	all := map[string]corev1.ResourceList{}
	for _, pod := range s.Pods {
		if pod.Labels[kubevirtv1.AppLabel] == quota.LauncherApp && quota.Charged(pod, s.Now) {
			all[vmOf(pod)] = quota.Max(all[vmOf(pod)], quota.Charge(pod))
		}
	}
	return all
}

// check refuses a demand that does not fit beside the other VMs, of which some were admitted
// lately. It reads nothing.
func (d *demand) check(recent []claim) error {
	accounts := quota.Claim(d.accounts, d.claimedByOthers(recent))
	has, wants := d.charges[d.vm], d.launcher.Pod
	wants.Charge = increase(wants.Charge, has)
	if lacking := quota.Lacking(accounts, wants); lacking != "" {
		return refuse("%s does not fit: %s", d.what, tooLarge(d.launcher, lacking, len(has) > 0))
	}
	if d.starts && len(has) > 0 {
		lacking := quota.LackingForReplacement(accounts, d.launcher.Pod, has)
		if lacking != "" {
			return refuse("%s could not start again: %s. Stop another VM, or raise the quota",
				d.what, lacking)
		}
	}
	return nil
}

// claimedByOthers returns what other VMs need beyond the charge of their launchers. The state of a
// VM admitted lately may be from before.
func (d *demand) claimedByOthers(recent []claim) []v1alpha1.ReservedPod {
	needs := map[string]v1alpha1.ReservedPod{}
	for _, claim := range recent {
		needs[claim.vm] = claim.launcher
	}
	maps.Copy(needs, d.needs)
	delete(needs, d.vm)
	var pods []v1alpha1.ReservedPod
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		pod := needs[name]
		pod.Charge = increase(pod.Charge, d.charges[name])
		if !isZero(pod.Charge) {
			pods = append(pods, pod)
		}
	}
	return pods
}

func isZero(charge corev1.ResourceList) bool {
	for _, q := range charge {
		if q.Sign() != 0 {
			return false
		}
	}
	return true
}

// tooLarge explains why a VM does not fit, and KubeVirt's part in its size.
func tooLarge(l estimate.Launcher, lacking string, grows bool) string {
	needs, limit := "it needs", ""
	if grows {
		needs = "it grows by"
	}
	if l.LimitRatio > 0 {
		limit = fmt.Sprintf("; the VM has no memory limit, so KubeVirt sets it to %g times the "+
			"request", l.LimitRatio)
	}
	return fmt.Sprintf("%s more than is free: %s. %s of its memory are the launcher's overhead, "+
		"which KubeVirt adds to the guest's%s. "+
		"Stop another VM, wait until migrations have ended, or raise the quota", needs, lacking,
		&l.Overhead, limit)
}

// increase returns the amounts of wants that exceed has.
func increase(wants, has corev1.ResourceList) corev1.ResourceList {
	more := corev1.ResourceList{}
	for name, q := range wants {
		q = q.DeepCopy()
		q.Sub(has[name])
		if q.Sign() < 0 {
			q = resource.Quantity{}
		}
		more[name] = q
	}
	return more
}
