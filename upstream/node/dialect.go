package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// A Dialect is the REST API that the nodes of a chain speak.
type Dialect string

// The dialects.
const (
	Story  Dialect = "story"  // the consensus client of Story
	Cosmos Dialect = "cosmos" // any chain of the Cosmos SDK, by grpc-gateway

	Undetermined Dialect = "undetermined" // it is found out later, and then SetDialect tells the Pool
)

// A protocol is what the client of a node knows of its dialect.
type protocol struct {
	height   string // the header that asks for a height
	probe    string // a path that is cheap and reads a state
	keyProbe string // the path of a list whose pages tell the form of page keys; "": all nodes read the same
	blocks   string // what the path of a block begins with, before its height; "" for none
	// read makes an answer of what came, as far as that can be told from it alone; not ok is
	// what a node does not say. asked is the height that was asked for.
	read func(r *http.Response, body []byte, asked int64) (a *Answer, ok bool)
	// tells says that answers tell the height they were read at.
	tells bool
}

func (d Dialect) protocol() (*protocol, error) {
	switch d {
	case Story, "":
		return &protocol{height: "X-Block-Height", probe: "/auth/params", keyProbe: "/staking/validators", read: readStory}, nil
	case Cosmos:
		return &protocol{height: "X-Cosmos-Block-Height", probe: "/cosmos/auth/v1beta1/params", blocks: "/cosmos/base/tendermint/v1beta1/blocks/", read: readCosmos, tells: true}, nil
	}
	return nil, fmt.Errorf("unknown dialect %q", string(d))
}

// SetDialect tells a Pool of an undetermined dialect which one it is. Run has waited for that.
func (p *Pool) SetDialect(d Dialect) error {
	found, err := d.protocol()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hasDialect() {
		return errors.New("the dialect is known already")
	}
	*p.protocol = *found
	close(p.determined)
	return nil
}

func (p *Pool) hasDialect() bool {
	select {
	case <-p.determined:
		return true
	default:
		return false
	}
}

// maxDetect bounds the search for a dialect at one node.
const maxDetect = 3 * time.Second

// Detect finds out which dialect the nodes speak: the first that answers decides.
func Detect(ctx context.Context, endpoints []Endpoint) (Dialect, error) {
	err := errors.New("no endpoint of a chain node")
	for _, e := range endpoints {
		var found Dialect
		if found, err = detect(ctx, e); err == nil {
			return found, nil
		}
	}
	return "", err
}

// detect asks a node for what each dialect's probe reads. In the wrong dialect that is no answer of a node.
func detect(ctx context.Context, e Endpoint) (Dialect, error) {
	base, err := parseBase(e.REST)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, maxDetect)
	defer cancel()
	o := Options{}.WithDefaults()
	for _, d := range []Dialect{Story, Cosmos} {
		s, err := d.protocol()
		if err != nil {
			return "", err
		}
		c := newClient(base, e.Headers, o, s)
		a, err := c.get(ctx, Request{Path: s.probe}, 0)
		c.http.CloseIdleConnections()
		switch {
		case err == nil && a.NodeStatus != http.StatusNotFound:
			return d, nil
		case err != nil && refuses(err):
			return "", err
		}
	}
	return "", fmt.Errorf("%s answers in no dialect that is known", base.Host)
}
