// Package tie is the state machine that binds a launcher to its VM processes. [Step] takes a tie,
// an event and a time, and returns the next tie and the actions to execute. The package has no
// effects: package supervisor observes the events and executes the actions.
package tie
