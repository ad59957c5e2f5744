// Package kube builds etcd and kube-apiserver from their modules and runs them on loopback: a real
// control plane for tests, which ends with its process.
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

// runName is the store's directory for running control planes.
const runName = "kube-run"

// startTimeout bounds the start of each program and the wait for the first namespace on a busy
// machine. A quiet one needs 5 seconds.
const startTimeout = 5 * time.Minute

// Options of Start.
type Options struct {
	// Log reports builds, which take minutes. Required.
	Log *slog.Logger
	// NodeProxy is the path of a Unix socket with an HTTP proxy (CONNECT) into the network of the
	// nodes, for webhooks of Services. Empty: kube-apiserver connects by itself.
	NodeProxy string
}

// ControlPlane is an etcd and a kube-apiserver. Its methods are not safe for concurrent use, except
// Config and Logs.
type ControlPlane struct {
	programs *cache.Entry
	temp     *cache.Temp
	logs     []*os.File
	started  []*Process
	plane    *envtest.ControlPlane
	admin    *rest.Config
}

// Start builds the programs that are not cached. It returns when kube-apiserver answers and the
// namespace "default" exists. RBAC is on, requests need credentials, and a pod needs an existing
// service account, as in any cluster. No controller runs before StartControllers. ctx bounds the
// build. The start itself takes seconds.
//
// The control plane ends with Stop, and at the latest with this process, in every case.
func Start(ctx context.Context, o Options) (_ *ControlPlane, err error) {
	store, err := cache.Default()
	if err != nil {
		return nil, err
	}
	log.SetLogger(logr.FromSlogHandler(o.Log.Handler())) // without it the library logs a complaint
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
	if err = c.prepare(o); err != nil {
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
	admin, err := c.plane.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}},
		&rest.Config{QPS: -1})
	if err != nil {
		return err
	}
	c.admin = admin.Config()
	return c.waitForDefaultNamespace(ctx)
}

// waitForDefaultNamespace returns when the API server has created the namespace "default". It does
// so after it reports ready.
func (c *ControlPlane) waitForDefaultNamespace(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true,
		func(ctx context.Context) (bool, error) {
			_, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault,
				metav1.GetOptions{})
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

// Config is the configuration of a client with all rights and without rate limits.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.admin) }

// StopAPIServer ends kube-apiserver and so every connection and watch. Its state stays for
// StartAPIServer.
func (c *ControlPlane) StopAPIServer() error {
	if err := c.plane.APIServer.Stop(); err != nil {
		return fmt.Errorf("stopping kube-apiserver: %w", err)
	}
	return nil
}

// StartAPIServer starts a stopped kube-apiserver with its old address and keys, and returns when it
// answers.
func (c *ControlPlane) StartAPIServer() error {
	if err := c.plane.APIServer.Start(); err != nil {
		return fmt.Errorf("starting kube-apiserver: %w\n%s", err, c.tails())
	}
	return nil
}

// Stop ends the control plane and removes its files. It may be called more than once.
func (c *ControlPlane) Stop() error {
	var errs []error
	for _, p := range slices.Backward(c.started) {
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
