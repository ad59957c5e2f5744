// Package sysdump collects the state of Mooring in a cluster in one archive for a report. It never
// reads Secrets, and removes tokens and private keys from all texts. A part that cannot be read
// does not end the dump: the archive has the reason.
package sysdump
