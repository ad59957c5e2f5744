package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// policyCache is the file below the root with the NodePolicy in force. The next agent uses it while
// the API server is away, and the fence uses it in place of the policy file.
const policyCache = "nodepolicy.json"

// policies decides which policy of a node is in force: the NodePolicy that selects the node, or
// else the policy file. An invalid NodePolicy leaves the present one in force.
type policies struct {
	path    string // of the file
	file    *policy.Policy
	started *policy.Policy // in force at the agent's start
	current *policy.Current
	cache   string
	logger  *slog.Logger

	cluster policyCluster        // nil: without Kubernetes
	apply   func(*policy.Policy) // hands the policy to the parts that keep settings of it
	wake    chan struct{}

	updating sync.Mutex

	mu     sync.Mutex
	listed bool   // update has decided with the cluster's list
	source string // of the policy in force, for people
	report v1alpha1.PolicyReport
}

// policyCluster knows the NodePolicies of the cluster: see [kube.PolicyWatch].
type policyCluster interface {
	Synced() bool
	Choose(inForce string) (*v1alpha1.NodePolicy, error)
}

// loadPolicies reads the policy file, and with Kubernetes also the cache.
func loadPolicies(config *Config, logger *slog.Logger) (*policies, error) {
	file, err := policy.Load(config.Policy)
	if err != nil {
		return nil, err
	}
	p := &policies{
		path: config.Policy, file: file, started: file, current: policy.NewCurrent(file),
		cache: filepath.Join(config.Root, policyCache), logger: logger, source: config.Policy,
		apply: func(*policy.Policy) {}, wake: make(chan struct{}, 1),
		report: v1alpha1.PolicyReport{Applied: true},
	}
	if config.Kubeconfig == "" {
		return p, p.dropCache()
	}
	cached, object, err := loadPolicyCache(p.cache)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		logger.Warn("ignoring the stored NodePolicy", "error", err)
	default:
		p.current.Set(cached)
		p.started, p.source = cached, describePolicy(object)
		p.report = v1alpha1.PolicyReport{Name: object.Name, UID: object.UID,
			Generation: object.Generation, Applied: true}
	}
	return p, nil
}

// loadPolicyCache reads the stored NodePolicy.
func loadPolicyCache(path string) (*policy.Policy, *v1alpha1.NodePolicy, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read the stored NodePolicy: %w", err)
	}
	object := &v1alpha1.NodePolicy{}
	if err := json.Unmarshal(text, object); err != nil {
		return nil, nil, fmt.Errorf("stored NodePolicy %s: %w", path, err)
	}
	p, err := policy.Parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("stored NodePolicy %s: %w", path, err)
	}
	return p, object, nil
}

func describePolicy(o *v1alpha1.NodePolicy) string {
	return fmt.Sprintf("NodePolicy %s, generation %d", o.Name, o.Generation)
}

// changed makes Run decide again. It does not block.
func (p *policies) changed() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run applies changes until ctx ends.
func (p *policies) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
			p.update()
		}
	}
}

// update applies the policy of the node, and records the outcome. Before the first list of
// NodePolicies it does nothing.
func (p *policies) update() {
	p.updating.Lock()
	defer p.updating.Unlock()
	if !p.cluster.Synced() {
		return
	}
	p.mu.Lock()
	before := p.report
	p.mu.Unlock()
	defer p.setListed()
	object, err := p.cluster.Choose(before.Name)
	report := v1alpha1.PolicyReport{}
	if object != nil {
		report.Name, report.UID = object.Name, object.UID
		report.Generation = object.Generation
	}
	if err == nil && before.Applied && before.Name == report.Name && before.UID == report.UID &&
		before.Generation == report.Generation {
		return
	}
	if err == nil {
		report.Reason, err = p.putInForce(object)
	}
	report.Applied = err == nil
	if err != nil {
		report.Reason = err.Error()
	}
	if report == before {
		return
	}
	p.log(report)
	p.mu.Lock()
	p.report = report
	p.mu.Unlock()
}

func (p *policies) setListed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed = true
}

// known reports whether the policy in force takes account of the cluster's NodePolicies.
func (p *policies) known() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cluster == nil || p.listed
}

func (p *policies) log(report v1alpha1.PolicyReport) {
	args := []any{"nodepolicy", report.Name, "generation", report.Generation, "policy",
		p.inForce(), "mode", p.current.Get().Mode, "reason", report.Reason}
	if !report.Applied {
		p.logger.Error("the NodePolicy is not applied; the policy in force stays", args...)
		return
	}
	p.logger.Info("the policy is in force", args...)
}

// putInForce applies a NodePolicy, or without one the policy file. It returns a remark for people.
func (p *policies) putInForce(object *v1alpha1.NodePolicy) (remark string, err error) {
	next, source := p.file, p.path
	if object == nil {
		err = p.dropCache()
	} else {
		source = describePolicy(object)
		next, err = p.parseAndStore(object)
	}
	if err != nil {
		return "", err
	}
	p.current.Set(next)
	p.mu.Lock()
	p.source = source
	p.mu.Unlock()
	p.apply(next)
	if !reflect.DeepEqual(readAtStart(next), readAtStart(p.started)) {
		return "lifecycle.emulators and lifecycle.libvirt take effect at the agent's next start",
			nil
	}
	return "", nil
}

// readAtStart returns the part of the policy that the agent reads at its start only. The start gate
// reads requireOwner at once.
func readAtStart(p *policy.Policy) (l policy.Lifecycle) {
	l.Emulators = p.Lifecycle.Emulators
	if libvirt := p.Lifecycle.Libvirt; libvirt != nil {
		l.Libvirt = &policy.Libvirt{Records: libvirt.Records, Socket: libvirt.Socket}
	}
	return l
}

// parseAndStore checks a NodePolicy like a file, and writes it to the cache.
func (p *policies) parseAndStore(object *v1alpha1.NodePolicy) (*policy.Policy, error) {
	kept := &v1alpha1.NodePolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: policy.APIVersion, Kind: policy.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: object.Name, UID: object.UID,
			Generation: object.Generation},
		Spec: object.Spec,
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return nil, fmt.Errorf("NodePolicy %s: %w", object.Name, err)
	}
	parsed, err := policy.Parse(text)
	if err != nil {
		return nil, err
	}
	if err := writeAtomically(p.cache, text); err != nil {
		// The policy itself is valid. Only an agent that starts without the API server misses it.
		p.logger.Warn("cannot store the NodePolicy for the next start", "error", err)
	}
	return parsed, nil
}

func writeAtomically(path string, text []byte) error {
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (p *policies) dropCache() error {
	if err := os.Remove(p.cache); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the stored NodePolicy: %w", err)
	}
	return nil
}

// inForce describes the policy in force: the path of the file, or the NodePolicy.
func (p *policies) inForce() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.source
}

// outcome returns the report for the NodeState.
func (p *policies) outcome() v1alpha1.PolicyReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.report
}
