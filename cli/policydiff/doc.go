// Package policydiff predicts the effect of another node policy on launchers, and writes a policy
// from launchers. [decide.Container] makes each decision, as in the agent. The functions are
// pure.
package policydiff
