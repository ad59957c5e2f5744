// Package verify checks that the parts of an installation work, for `helm test`.
package verify

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// Parts of an installation.
const (
	CRDs       = "crds"
	Agent      = "agent"
	Fence      = "fence"
	Controller = "controller"
	Webhooks   = "webhooks"
)

// Parts returns all parts in the order of the checks.
func Parts() []string { return []string{CRDs, Agent, Fence, Controller, Webhooks} }

// pollPeriod is the time between two checks of a part that does not work yet.
const pollPeriod = time.Second

// Cluster checks one installation.
type Cluster struct {
	Client    kubernetes.Interface
	Namespace string
	Parts     []string
	Print     func(line string)
	// Dial connects to the address of a Service, IP:PORT.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	progress atomic.Pointer[string]
}

// Progress returns the part that Run checks, with the last error. It is for concurrent use.
func (c *Cluster) Progress() string {
	if text := c.progress.Load(); text != nil {
		return *text
	}
	return "starting"
}

// Run checks each part, waits for it until ctx ends, and prints the result. The error names the
// parts that do not work.
func (c *Cluster) Run(ctx context.Context) error {
	checks := map[string]func(context.Context) error{
		CRDs: c.checkCRDs, Controller: c.checkController, Webhooks: c.checkWebhooks,
		Agent: func(ctx context.Context) error { return c.checkDaemonSet(ctx, "mooring-agent") },
		Fence: func(ctx context.Context) error { return c.checkDaemonSet(ctx, "mooring-fence") },
	}
	var failed []string
	for _, part := range c.Parts {
		if err := c.await(ctx, part, checks[part]); err != nil {
			c.Print(part + ": " + err.Error())
			failed = append(failed, part)
			continue
		}
		c.Print(part + ": ok")
	}
	if len(failed) > 0 {
		return fmt.Errorf("%s: not working", strings.Join(failed, ", "))
	}
	return nil
}

// await repeats a check until it passes, and returns its last error when ctx ends. Rights take
// effect with a delay, so a denied request repeats, too.
func (c *Cluster) await(ctx context.Context, part string,
	check func(context.Context) error) error {
	text := "checking " + part
	c.progress.Store(&text)
	for {
		attempt, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		err := check(attempt)
		cancel()
		if err == nil {
			return nil
		}
		text := "waiting for " + part + ": " + err.Error()
		c.progress.Store(&text)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pollPeriod):
		}
	}
}

// checkCRDs wants the API server to serve Mooring's resources.
func (c *Cluster) checkCRDs(context.Context) error {
	served, err := c.Client.Discovery().ServerResourcesForGroupVersion(
		v1alpha1.GroupVersion().String())
	if err != nil {
		return fmt.Errorf("read the resources of %s: %w", v1alpha1.GroupVersion(), err)
	}
	for _, name := range []string{"migrationreservations", "nodepolicies", "nodestates"} {
		if !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool {
			return r.Name == name
		}) {
			return fmt.Errorf("the API server does not serve %s of %s", name,
				v1alpha1.GroupVersion())
		}
	}
	return nil
}

// checkDaemonSet wants a ready pod of the present version on each node.
func (c *Cluster) checkDaemonSet(ctx context.Context, name string) error {
	set, err := c.Client.AppsV1().DaemonSets(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read DaemonSet %s: %w", name, err)
	}
	return DaemonSet(set).problem()
}

// checkController wants all replicas to be ready.
func (c *Cluster) checkController(ctx context.Context) error {
	const name = "mooring-controller"
	d, err := c.Client.AppsV1().Deployments(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read Deployment %s: %w", name, err)
	}
	return Deployment(d).problem()
}
