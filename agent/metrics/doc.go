// Package metrics is what operators watch the agent by: Prometheus metrics, the
// health endpoints, and the profiler.
//
// Labels have few values. Names of pods, namespaces and containers are in Events
// and in `mooring ps`, never in labels.
package metrics
