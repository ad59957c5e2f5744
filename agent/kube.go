package agent

import (
	"log/slog"

	"github.com/mooring-vm/mooring/agent/kube"
	"github.com/mooring-vm/mooring/agent/metrics"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/internal/kubeclient"
)

// kubernetes holds the agent's connections to the cluster.
type kubernetes struct {
	pods   *kube.PodCache
	events *kube.Recorder
	state  *kube.StateWriter

	policies *kube.PolicyWatch
}

func newKubernetes(config *Config, in *policies, counts *metrics.Metrics,
	state func() kube.State, logger *slog.Logger) (*kubernetes, error) {
	node, err := config.node()
	if err != nil {
		return nil, err
	}
	rest, err := kubeclient.LoadConfig(config.Kubeconfig)
	if err != nil {
		return nil, err
	}
	clients, err := kube.NewClients(rest)
	if err != nil {
		return nil, err
	}
	pods, err := kube.NewPodCache(kube.PodsOfNode(clients.Core, node), node, logger)
	if err != nil {
		return nil, err
	}
	pods.TrackLaunchers(func(labels, annotations map[string]string) (string, bool) {
		return decide.Recognise(in.current.Get(), labels, annotations)
	})
	events, err := kube.NewRecorder(kube.RecorderConfig{
		Sink:   kube.NewEventSink(clients.Events),
		Node:   node,
		Logger: logger, Instance: pods.Instance,
		Count: func(outcome kube.Outcome) { counts.KubeEvent(string(outcome)) },
	})
	if err != nil {
		return nil, err
	}
	writer, err := kube.NewStateWriter(kube.StateWriterConfig{
		Clients: clients, Node: node, State: state, Logger: logger,
	})
	if err != nil {
		return nil, err
	}
	watch, err := kube.NewPolicyWatch(clients, node, in.changed, logger)
	if err != nil {
		return nil, err
	}
	return &kubernetes{pods: pods, events: events, state: writer, policies: watch}, nil
}

// warnAboutAccounts logs the rules that need Kubernetes, for an agent without a kubeconfig.
func warnAboutAccounts(p *policy.Policy, logger *slog.Logger) {
	for _, rule := range p.Rules {
		if len(rule.ServiceAccounts) > 0 {
			logger.Warn("rule names service accounts, which the agent cannot read without "+
				"--kubeconfig: "+
				"it refuses every launcher that the rule matches", "rule", rule.Name)
		}
	}
}
