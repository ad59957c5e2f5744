// Package guard compares the limits of running launchers with the kernel, reports differences, and
// repairs memory-lock limits.
package guard
