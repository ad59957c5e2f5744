// Package poddir keeps the directories that pods share with the agent: their tmpfs, pipes, sockets
// and reports.
package poddir
