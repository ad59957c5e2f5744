// Package nodepolicy summarises in the status of each NodePolicy which nodes have applied it. Agents
// apply policies and report the outcome in the NodeState of their node. [Summarise] is pure, [Add]
// adds the controller that writes its result.
package nodepolicy
