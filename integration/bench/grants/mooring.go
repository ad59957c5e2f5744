package grants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/prometheus/procfs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/hack/kube"
)

// patience is how long a round may take.
const patience = 3 * time.Minute

// measureController runs mooring-controller, and enters what it does.
func (b *bed) measureController(ctx context.Context, found *Found) (err error) {
	c, err := b.startController(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.process.Stop()) }()
	if found.Mooring, err = b.times(ctx, b.migrate); err != nil {
		return fmt.Errorf("with mooring-controller: %w", err)
	}
	migrations := 1 // that did not count
	for i, size := range b.Sizes {
		migrations += size * b.Rounds[i]
	}
	done, conflicts, err := c.writes(ctx)
	if err != nil {
		return err
	}
	found.Writes, found.Conflicts = done/float64(migrations), conflicts/float64(migrations)
	if err := b.reside(ctx); err != nil {
		return err
	}
	found.ResidentLaunched = b.Residents
	found.Memory, err = resident(c.process.Pid())
	return err
}

// migrate begins so many migrations, and returns for each how long it took, from before its
// creation, until its reservation was granted: status.hard has it, and the controller has
// seen and said so.
// It ends them.
func (b *bed) migrate(ctx context.Context, size int) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w, err := b.api.Watch(ctx, &v1alpha1.MigrationReservationList{})
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	all := make([]begun, size)
	wrote := make(chan error, 1)
	go func() {
		wrote <- each(ctx, size, func(ctx context.Context, i int) (err error) {
			all[i], err = b.begin(ctx, space(i%b.Namespaces), vm(i/b.Namespaces))
			return err
		})
	}()
	granted, err := grantsOf(ctx, w, size)
	if err = errors.Join(err, <-wrote); err != nil {
		return nil, err
	}
	var took []float64
	for _, m := range all {
		took = append(took, granted[m.migration.UID].Sub(m.at).Seconds())
	}
	return took, errors.Join(b.endAll(ctx, all), b.awaitBase(ctx))
}

// begun is a migration, and when it was about to be created.
type begun struct {
	migration *kubevirtv1.VirtualMachineInstanceMigration
	at        time.Time
}

func (b *bed) begin(ctx context.Context, namespace, vmi string) (begun, error) {
	m := &kubevirtv1.VirtualMachineInstanceMigration{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "m-"}}
	m.Spec.VMIName = vmi
	at := time.Now()
	return begun{m, at}, b.api.Create(ctx, m)
}

// grantsOf are the moments at which so many reservations were granted.
func grantsOf(ctx context.Context, w watch.Interface, n int) (map[types.UID]time.Time, error) {
	granted := map[types.UID]time.Time{}
	for len(granted) < n {
		r, err := next[*v1alpha1.MigrationReservation](ctx, w)
		if err != nil {
			return nil, fmt.Errorf("%d of %d are granted: %w", len(granted), n, err)
		}
		uid := types.UID(r.Name)
		if _, before := granted[uid]; !before && meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionGranted) {
			granted[uid] = time.Now()
		}
	}
	return granted, nil
}

// controller is a process of mooring-controller.
type controller struct {
	process *kube.Process
	listen  string
}

func (b *bed) startController(ctx context.Context) (*controller, error) {
	kubeconfig, err := b.plane.Kubeconfig(ctx, system, "mooring-controller")
	if err != nil {
		return nil, err
	}
	port, err := kube.FreePort()
	if err != nil {
		return nil, err
	}
	program, err := filepath.Abs(b.Controller)
	if err != nil {
		return nil, err
	}
	c := &controller{listen: fmt.Sprintf("127.0.0.1:%d", port)}
	c.process, err = b.plane.Start("mooring-controller", program, "--kubeconfig="+kubeconfig, "--lease-namespace="+system, "--listen="+c.listen)
	if err != nil {
		return nil, err
	}
	return c, wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := c.get(ctx, "/readyz")
		return err == nil, nil
	})
}

func (c *controller) get(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.listen+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status + ": " + string(body))
	}
	return string(body), err
}

var writeCount = regexp.MustCompile(`(?m)^mooring_quota_writes_total\{object="\w+",outcome="(\w+)"\} (\d+)$`)

// writes are how many were done, and how many met a conflict.
func (c *controller) writes(ctx context.Context) (done, conflicts float64, err error) {
	text, err := c.get(ctx, "/metrics")
	if err != nil {
		return 0, 0, err
	}
	for _, match := range writeCount.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			return 0, 0, err
		}
		switch match[1] {
		case "done":
			done += n
		case "conflict":
			conflicts += n
		}
	}
	return done, conflicts, nil
}

// reside makes VMs until there are as many as wanted, in namespaces without a quota.
func (b *bed) reside(ctx context.Context) error {
	const inOne = 100
	spaces := (b.Residents - b.Namespaces*b.VMs) / inOne
	name := func(i int) string { return fmt.Sprintf("more-%d", i) }
	if err := each(ctx, spaces, func(ctx context.Context, i int) error {
		if err := b.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name(i)}}); err != nil {
			return err
		}
		return b.account(ctx, name(i))
	}); err != nil {
		return err
	}
	return each(ctx, spaces*inOne, func(ctx context.Context, i int) error { return b.launch(ctx, name(i/inOne), vm(i%inOne)) })
}

func (b *bed) endAll(ctx context.Context, all []begun) error {
	return each(ctx, len(all), func(ctx context.Context, i int) error { return b.end(ctx, all[i].migration) })
}

// end deletes a migration as if virt-controller had let go of it.
func (b *bed) end(ctx context.Context, m *kubevirtv1.VirtualMachineInstanceMigration) error {
	free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := b.api.Patch(ctx, m, free); err != nil {
		return err
	}
	return b.api.Delete(ctx, m)
}

// resident is the memory of a process, in bytes.
func resident(pid int) (float64, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	stat, err := p.Stat()
	if err != nil {
		return 0, err
	}
	return float64(stat.ResidentMemory()), nil
}
