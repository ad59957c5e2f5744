// Package fencing keeps the object of a deleted launcher pod until its VM is proven gone, so the VM
// cannot run twice. A webhook adds a finalizer to the launcher pods of namespaces that opt in, and
// a controller removes it. [Decide] is pure; [Add] adds the controller, [NewWebhook] returns the
// webhook's handler.
package fencing
