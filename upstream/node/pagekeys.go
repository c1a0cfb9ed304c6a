package node

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream"
)

// A KeyForm is how a node of Story reads pagination.key. Every node writes next_key in base64.
// Which form it reads depends on its release, and nodes of both kinds can serve one chain.
type KeyForm string

// The forms.
const (
	UnknownKeys KeyForm = ""
	RawKeys     KeyForm = "raw"    // the decoded bytes of next_key, up to release 1.5
	Base64Keys  KeyForm = "base64" // the text of next_key, since piplabs/story#827
)

func (form KeyForm) encode(raw string) string {
	if form == Base64Keys {
		return base64.StdEncoding.EncodeToString([]byte(raw))
	}
	return raw
}

// keyFormFor is how long the tested form of a node is valid. A detected restart ends it earlier.
const keyFormFor = time.Minute

var (
	errKeyForm        = errors.New("the node's page keys have no known form")
	errImpossiblePage = errors.New("the page does not start at its key; is the address one of several nodes?")
)

type pageKeys struct {
	form   KeyForm // found by the last test, but it may have changed since
	tested time.Time
	lost   int64 // heights.State.Lost when the form was tested
}

// currentKeys returns the form of the node's page keys, or UnknownKeys if the node must be tested.
func (v *view) currentKeys() KeyForm {
	if v.keys.lost != v.Lost || time.Since(v.keys.tested) > keyFormFor {
		return UnknownKeys
	}
	return v.keys.form
}

// keyForm returns the form in which the node reads page keys. It tests the node if the form is unknown or may have
// changed.
func (e *endpoint) keyForm(ctx context.Context) (KeyForm, error) {
	select {
	case e.testing <- struct{}{}:
		defer func() { <-e.testing }()
	case <-ctx.Done():
		return UnknownKeys, upstream.Silence(nodeName, ctx.Err())
	}
	now := e.snapshot()
	if form := now.currentKeys(); form != UnknownKeys {
		return form, nil
	}
	if time.Since(e.testFailed) < breakerOpen {
		return UnknownKeys, badAnswer(errKeyForm)
	}
	form, err := e.testKeys(ctx, now.Height)
	switch {
	case err == nil:
		e.update(func(v *view) { v.keys = pageKeys{form, time.Now(), now.Lost} })
	case errors.Is(err, errKeyForm):
		e.testFailed = time.Now()
	}
	return form, err
}

// getPage reads a page of a list, by its page key in the node's form if the key is not in the query. If the node refuses the form
// or the page is impossible, the node has been replaced since the last test: it is tested again, and the page is read once more.
func (e *endpoint) getPage(ctx context.Context, r Request, height int64) (*Answer, error) {
	for tries := 0; ; tries++ {
		sent, form := r, r.Keys
		if r.PageKey != "" || tries > 0 {
			var err error
			if form, err = e.keyForm(ctx); err != nil {
				return nil, err
			}
		}
		if r.PageKey != "" {
			sent.Query = withKey(r.Query, form.encode(r.PageKey))
		}
		if r.Keys != UnknownKeys && form != r.Keys {
			return nil, badAnswer(errKeyForm)
		}
		a, err := e.client.get(ctx, sent, height)
		refused := err == nil && r.PageKey != "" && form == RawKeys && refusesForm(a)
		switch possible := err != nil || e.nextKeys.checkPage(r, r.sentHeight(height), a); {
		case possible && (!refused || tries > 0):
			return a, err
		case tries > 0:
			return nil, badAnswer(errImpossiblePage)
		}
		e.update(func(v *view) { v.keys.tested = time.Time{} })
	}
}

// refusesForm reports whether a node that reads base64 refused a key in another form.
func refusesForm(a *Answer) bool { return a.Reason == BadInput && strings.Contains(a.Text, "base64") }

func withKey(query, key string) string {
	if query != "" {
		query += "&"
	}
	return query + "pagination.key=" + url.QueryEscape(key)
}

// testKeys determines the form in which the node reads page keys. Only in the right form does the key of the second
// validator return this validator.
func (e *endpoint) testKeys(ctx context.Context, height int64) (KeyForm, error) {
	const one = "pagination.limit=1"
	first, err := e.readValidators(ctx, one, height)
	if err != nil {
		return UnknownKeys, err
	}
	raw, err := base64.StdEncoding.DecodeString(gjson.GetBytes(first.Body, "msg.pagination.next_key").Str)
	if err != nil {
		return UnknownKeys, badAnswer(errKeyForm)
	}
	if len(raw) == 0 {
		return e.testWithoutKey(ctx, height)
	}
	second, err := e.readValidators(ctx, one+"&pagination.offset=1", height)
	if err != nil {
		return UnknownKeys, err
	}
	for _, form := range []KeyForm{Base64Keys, RawKeys} {
		a, err := e.readValidators(ctx, withKey(one, form.encode(string(raw))), height)
		if err != nil {
			return UnknownKeys, err
		}
		if want := validatorIn(second); want != "" && validatorIn(a) == want {
			return form, nil
		}
	}
	return UnknownKeys, badAnswer(errKeyForm)
}

// testWithoutKey tests a node whose list of validators has no second page. Only a node that reads base64 refuses an
// invalid key.
func (e *endpoint) testWithoutKey(ctx context.Context, height int64) (KeyForm, error) {
	a, err := e.readValidators(ctx, withKey("pagination.limit=1", "!"), height)
	switch {
	case err != nil:
		return UnknownKeys, err
	case a.Reason == OK:
		return RawKeys, nil
	case a.Reason == BadInput || a.NodeStatus == http.StatusBadRequest:
		return Base64Keys, nil
	default:
		return UnknownKeys, badAnswer(errKeyForm)
	}
}

func (e *endpoint) readValidators(ctx context.Context, query string, height int64) (*Answer, error) {
	return e.client.get(ctx, Request{Path: e.client.protocol.keyProbe, Query: query}, height)
}

func validatorIn(a *Answer) string {
	return gjson.GetBytes(a.Body, "msg.validators.0.operator_address").Str
}

// followKeys keeps the form up to date if keys are sent verbatim.
func (p *Pool) followKeys(ctx context.Context, e *endpoint) {
	v := e.snapshot()
	if !p.options.VerbatimKeys || p.protocol.keyProbe == "" || v.currentKeys() != UnknownKeys {
		return
	}
	_, _ = e.inTurn(ctx, Request{Cost: Page, Background: true}, func() (*Answer, error) {
		ctx, cancel := context.WithTimeout(ctx, e.timeout)
		defer cancel()
		_, err := e.keyForm(ctx)
		return nil, err
	})
}

// knownForm reports whether a node is known to read page keys in a form. If so, keys in this form must not be sent to
// nodes of the other form, which would return an empty or a wrong page.
func (p *Pool) knownForm(form KeyForm) bool {
	return form != UnknownKeys && slices.ContainsFunc(p.endpoints(), func(e *endpoint) bool {
		v := e.orBefore(Request{}).snapshot()
		return !v.Foreign() && v.keys.form == form
	})
}

// MixedKeys reports whether page keys are sent verbatim although some nodes read them raw and others in base64.
func (p *Pool) MixedKeys() bool {
	return p.options.VerbatimKeys && p.knownForm(RawKeys) && p.knownForm(Base64Keys)
}
