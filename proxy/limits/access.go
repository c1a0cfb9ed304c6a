package limits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/proxy/failure"
)

// A Rule applies to the operations that match it. An operation is the path of a REST request
// (/staking/pool), a method of the RPC (abci_query), or a gRPC method (cosmos.bank.v1beta1.Query/Balance).
type Rule struct {
	Text     string   // as configured
	Patterns []string // * matches any characters, slashes included
	Deny     bool
	Rate     Rate // rate per client of all matching operations; zero means no limit
	Cost     int  // number of requests that an operation counts as against the other limits; 0 means 1
}

// nodeInternals is the rule after all configured ones. It protects what a node reports about its peers, its mempool and
// its consensus, the metrics of its API, and the calls that control the node.
var nodeInternals = NewDeny("/metrics", "net_info", "consensus_state", "dump_consensus_state", "unconfirmed_txs", "unsafe_*", "dial_*", "cometbft.services.pruning.*")

// IsBuiltIn reports whether the rule after all configured ones has a pattern.
func IsBuiltIn(pattern string) bool { return slices.Contains(nodeInternals.Patterns, pattern) }

// NewDeny returns a rule that denies the operations that match patterns.
func NewDeny(patterns ...string) Rule {
	return Rule{Text: "deny " + strings.Join(patterns, " "), Patterns: patterns, Deny: true}
}

// Rule returns the access rule for an operation: the first one that matches, or nil.
func (l *Limits) Rule(operation string) *Rule {
	for i := range l.Access {
		if l.Access[i].matches(operation) {
			return &l.Access[i]
		}
	}
	if nodeInternals.matches(operation) {
		return &nodeInternals
	}
	return nil
}

// Restricts reports whether a configured rule denies or limits operations.
func (l *Limits) Restricts() bool {
	return slices.ContainsFunc(l.Access, func(r Rule) bool { return r.Deny || r.Rate != (Rate{}) || r.Cost > 1 })
}

func (r *Rule) matches(operation string) bool {
	return slices.ContainsFunc(r.Patterns, func(pattern string) bool { return match(pattern, operation) })
}

func match(pattern, text string) bool {
	first, rest, more := strings.Cut(pattern, "*")
	if !more {
		return pattern == text
	}
	if !strings.HasPrefix(text, first) {
		return false
	}
	text = text[len(first):]
	for {
		part, next, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(text, part)
		}
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text, rest = text[at+len(part):], next
	}
}

// Denied returns the error if the access rules deny an operation. It is a *failure.Failure with the status 403.
func (a *Admission) Denied(operation string) error {
	return a.denied(a.Limits.Load().Rule(operation), operation)
}

func (a *Admission) denied(rule *Rule, operation string) error {
	if rule == nil || !rule.Deny {
		return nil
	}
	a.count("rule", "memory", false, 1)
	return ErrDenied(operation)
}

// ErrDenied returns the error of an operation that an access rule denies.
func ErrDenied(operation string) error {
	return &failure.Failure{Status: http.StatusForbidden, Expected: true, Public: fmt.Sprintf("access to %.64s is denied here", operation)}
}

// AdmitOperation applies the access rules to an operation of a client whose request was admitted. It adds the rate of the rule
// to the response headers, and what the operation counts as to charge. charged is false if charge has another rule already. The
// error is a *failure.Failure, with the status 403 if the rule denies the operation or its cost exceeds the burst of a limit of
// the client.
func (a *Admission) AdmitOperation(ctx context.Context, c *Client, operation string, answer http.Header, charge *Charge) (charged bool, err error) {
	rule := a.Limits.Load().Rule(operation)
	if err := a.denied(rule, operation); err != nil || rule == nil {
		return true, err
	}
	if rule.Cost > 1 {
		charge.More += rule.Cost - 1
		if err = a.AdmitMore(ctx, c, rule.Cost-1, http.StatusForbidden, answer); err != nil {
			return true, err
		}
	}
	if rule.Rate == (Rate{}) {
		return true, nil
	}
	charged = charge.Rule == nil
	charge.Rule = rule
	err = a.admit(ctx, limit{rule.owner(c), rule.Rate}, 1, answer)
	if f, ok := errors.AsType[*failure.Failure](err); ok {
		f.Err = fmt.Errorf("rate limit of rule %q, client %s", rule.Text, cmp.Or(c.Key.Name, c.Network()))
	}
	return charged, err
}

func (r *Rule) owner(c *Client) owner {
	o := owner{kind: "rule", rule: r.Text, name: c.Key.Name}
	if o.name == "" {
		o.network = NetworkOf(c.Address)
	}
	return o
}
