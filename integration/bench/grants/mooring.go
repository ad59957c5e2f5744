package grants

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/prometheus/procfs"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-vm/mooring/hack/kube"
)

// measureController runs mooring-controller and records its results.
func (b *testBed) measureController(ctx context.Context, found *Found) (err error) {
	c, err := b.startController(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.process.Stop()) }()
	if found.Mooring, err = b.times(ctx, b.migrate); err != nil {
		return fmt.Errorf("with mooring-controller: %w", err)
	}
	migrations := 1 // the uncounted one
	for i, size := range b.Sizes {
		migrations += size * b.Rounds[i]
	}
	done, conflicts, err := c.writes(ctx)
	if err != nil {
		return err
	}
	found.Writes, found.Conflicts = done/float64(migrations), conflicts/float64(migrations)
	if err := b.takeTurns(ctx, found); err != nil {
		return fmt.Errorf("comparing raises with pods: %w", err)
	}
	return b.measureMemory(ctx, c, found)
}

func (b *testBed) measureMemory(ctx context.Context, c *controller, found *Found) (err error) {
	if err := b.addResidents(ctx); err != nil {
		return err
	}
	found.ResidentLaunched = b.Residents
	if found.Memory, err = resident(c.process.Pid()); err != nil {
		return err
	}
	if err := b.addQuotas(ctx); err != nil {
		return err
	}
	found.MemoryQuotas, err = resident(c.process.Pid())
	return err
}

// migrate waits until the controller has raised the quotas for size migrations.
func (b *testBed) migrate(ctx context.Context, size int) ([]float64, error) {
	took, err := b.round(ctx, size, ignore)
	return took, errors.Join(err, b.awaitBase(ctx))
}

// controller is a process of mooring-controller.
type controller struct {
	process *kube.Process
	url     string
}

func (b *testBed) startController(ctx context.Context, more ...string) (*controller, error) {
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
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	c := &controller{url: "http://" + listen}
	args := append([]string{"--mode=enforce", "--kubeconfig=" + kubeconfig, "--lease-namespace=" + system,
		"--listen=" + listen}, more...)
	c.process, err = b.plane.Start("mooring-controller", program, args...)
	if err != nil {
		return nil, err
	}
	return c, wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			_, err := kube.Get(ctx, c.url+"/readyz")
			return err == nil, nil
		})
}

var writeCount = regexp.MustCompile(
	`(?m)^mooring_quota_writes_total\{object="\w+",outcome="(\w+)"\} (\d+)$`)

// writes returns the numbers of writes and of conflicts.
func (c *controller) writes(ctx context.Context) (done, conflicts float64, err error) {
	text, err := kube.Get(ctx, c.url+"/metrics")
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

// addResidents makes VMs in namespaces without a quota until Residents exist.
func (b *testBed) addResidents(ctx context.Context) error {
	const inOne = 100
	spaces := (b.Residents - b.Namespaces*b.VMs) / inOne
	name := func(i int) string { return fmt.Sprintf("more-%d", i) }
	if err := each(ctx, spaces, func(ctx context.Context, i int) error {
		if err := b.api.Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name(i)}}); err != nil {
			return err
		}
		return b.awaitServiceAccount(ctx, name(i))
	}); err != nil {
		return err
	}
	return each(ctx, spaces*inOne, func(ctx context.Context, i int) error {
		return b.launch(ctx, name(i/inOne), vm(i%inOne))
	})
}

// addQuotas makes namespaces with a quota and without VMs.
func (b *testBed) addQuotas(ctx context.Context) error {
	if err := each(ctx, b.Quotas, func(ctx context.Context, i int) error {
		return b.addQuota(ctx, fmt.Sprintf("quota-%d", i))
	}); err != nil {
		return err
	}
	return b.awaitQuotas(ctx, roomName, computed)
}

// addQuota makes a namespace with a quota that has room for pods.
func (b *testBed) addQuota(ctx context.Context, namespace string) error {
	if err := b.api.Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	return b.api.Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: roomName},
		Spec:       corev1.ResourceQuotaSpec{Hard: hard(1000)},
	})
}

// resident returns the memory of a process in bytes.
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
