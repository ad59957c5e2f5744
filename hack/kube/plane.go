// Package kube builds etcd and kube-apiserver from their modules and runs them on
// loopback: a real control plane, for tests, that is gone with its process.
package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

// runName is the store's folder for running control planes.
const runName = "kube-run"

// startTimeout is that of each program, and of the first namespace. A quiet
// machine needs a twentieth of it.
const startTimeout = 2 * time.Minute

// Options of Start.
type Options struct {
	// Log hears of a build, which takes minutes. Required.
	Log *slog.Logger
}

// ControlPlane is an etcd and a kube-apiserver. Its methods are not safe for
// concurrent use, except Config and Logs.
type ControlPlane struct {
	programs *cache.Entry
	temp     *cache.Temp
	logs     []*os.File
	beside   []*Process
	plane    *envtest.ControlPlane
	admin    *rest.Config
}

// Start builds what is not cached and returns when kube-apiserver answers and
// the namespace "default" is there. RBAC is on; nobody is let in without
// credentials; a pod gets a service account, which must exist, as everywhere.
// There are no controllers before StartControllers. ctx ends a build; the rest is over in seconds.
//
// The control plane ends with Stop, and at the latest with this process,
// whatever ends it.
func Start(ctx context.Context, o Options) (_ *ControlPlane, err error) {
	store, err := cache.Default()
	if err != nil {
		return nil, err
	}
	log.SetLogger(logr.FromSlogHandler(o.Log.Handler())) // or the library complains that nobody did
	c := &ControlPlane{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if c.programs, err = Build(ctx, o.Log); err != nil {
		return nil, err
	}
	if c.temp, err = store.Temp(ctx, runName); err != nil {
		return nil, err
	}
	if err = c.prepare(); err != nil {
		return nil, fmt.Errorf("preparing the control plane: %w", err)
	}
	if err = c.start(ctx); err != nil {
		return nil, fmt.Errorf("starting the control plane: %w\n%s", err, c.tails())
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	if err := c.plane.Start(); err != nil {
		return err
	}
	admin, err := c.plane.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, &rest.Config{QPS: -1})
	if err != nil {
		return err
	}
	c.admin = admin.Config()
	return c.waitForDefaultNamespace(ctx)
}

// waitForDefaultNamespace returns when the API server has made the namespace
// that it makes by itself, which is after it says that it is up.
func (c *ControlPlane) waitForDefaultNamespace(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the default namespace: %w", err)
	}
	return nil
}

// Config is for a client that may do everything, as fast as it can.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.admin) }

// StopAPIServer ends kube-apiserver, and with it every connection and watch. Its
// state is kept for StartAPIServer.
func (c *ControlPlane) StopAPIServer() error {
	if err := c.plane.APIServer.Stop(); err != nil {
		return fmt.Errorf("stopping kube-apiserver: %w", err)
	}
	return nil
}

// StartAPIServer starts a stopped kube-apiserver at its old address, with its old
// keys, and returns when it answers.
func (c *ControlPlane) StartAPIServer() error {
	if err := c.plane.APIServer.Start(); err != nil {
		return fmt.Errorf("starting kube-apiserver: %w\n%s", err, c.tails())
	}
	return nil
}

// Stop ends the control plane and removes all that it left. It may be called
// more than once.
func (c *ControlPlane) Stop() error {
	var errs []error
	for _, p := range slices.Backward(c.beside) {
		errs = append(errs, p.Stop())
	}
	if c.plane != nil {
		errs = append(errs, c.plane.Stop())
	}
	for _, l := range c.logs {
		errs = append(errs, l.Close())
	}
	if c.temp != nil {
		errs = append(errs, c.temp.Close())
	}
	if c.programs != nil {
		errs = append(errs, c.programs.Close())
	}
	*c = ControlPlane{}
	return errors.Join(errs...)
}

func (c *ControlPlane) program(name string) string { return filepath.Join(c.programs.Dir, name) }
