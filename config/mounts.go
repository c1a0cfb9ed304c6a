package config

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
)

// basePath matches paths without characters that URLs escape.
var basePath = regexp.MustCompile(`^(/|(/[A-Za-z0-9._~-]+)+)$`)

// mounts checks the base paths and their fallback services.
func (v *validation) mounts(c Config) {
	for i, m := range c.HTTP.Mounts {
		key := fmt.Sprintf("http.mounts[%d]", i)
		if !basePath.MatchString(m.Path) || path.Clean(m.Path) != m.Path {
			v.check(false, key+".path", "%q is not a path such as /api, or / for the root", m.Path)
			continue
		}
		v.check(!within(m.Path, strings.TrimSuffix(listing.Prefix, "/")), key+".path", "%s belongs to the collections", m.Path)
		v.check(!web.IsHealthPath(m.Path), key+".path", "%s is the path of a health check", m.Path)
		for j, other := range c.HTTP.Mounts[:i] {
			v.check(m.Path != other.Path, key+".path", "%s is also the path of http.mounts[%d]", m.Path, j)
		}
		for _, other := range c.HTTP.Mounts {
			if hidden := c.hides(m.Path, other.Path); hidden != "" {
				v.check(false, key+".path", "hides %s of the mount at %s", hidden, other.Path)
			}
		}
		v.check(slices.Contains([]story.Shape{"", story.Documented, story.Node}, m.Shape), key+".shape", "%q is none of documented, node", m.Shape)
		v.fallback(key, m)
	}
}

func (v *validation) fallback(key string, m proxy.Mount) {
	if m.Fallback != "" {
		v.httpURL(key+".fallback", m.Fallback)
		u, err := url.Parse(m.Fallback)
		v.check(err != nil || u.User == nil && u.RawQuery == "" && u.Fragment == "", key+".fallback", "a user, a query and a fragment have no meaning here")
	}
	v.check(len(m.Always) == 0 || m.Fallback != "", key+".always", "needs a fallback")
	v.check(!m.PassAuthorization || m.Fallback != "", key+".pass_authorization", "needs a fallback")
	each(key+".always", m.Always, func(at, pattern string) {
		_, err := dialect.ParsePatterns([]string{pattern})
		v.check(err == nil, at, "%v", err)
	})
}

// healthWarnings returns a warning for each health check that a fallback at the root always answers.
func (c Config) healthWarnings() (warnings []error) {
	for i, m := range c.HTTP.Mounts {
		each(fmt.Sprintf("http.mounts[%d].always", i), m.Always, func(key, pattern string) {
			for _, check := range health {
				if p, err := dialect.ParsePatterns([]string{pattern}); err == nil && m.Path == "/" && p.Match(check.Pattern) {
					warnings = append(warnings, Problem{Key: key, Text: fmt.Sprintf("health checks of %s on the public listener get the response of the fallback, not the state of tipcache", check.Pattern)})
				}
			}
		})
	}
	return warnings
}

// within reports whether a path is base or below it.
func within(p, base string) bool {
	return p == base || strings.HasPrefix(p, strings.TrimSuffix(base, "/")+"/")
}

// hides returns the pattern of a path of the mount at other that a mount at p would hide, or "".
func (c Config) hides(p, other string) string {
	if p == other || !within(p, other) {
		return ""
	}
	p = strings.TrimPrefix(p, strings.TrimSuffix(other, "/"))
	for _, row := range slices.Concat(fixed, health, c.rows()) {
		if within(row.Pattern, p) && (other != "/" || row.Pattern != listing.Path) { // which is always at the root
			return row.Pattern
		}
	}
	return ""
}

// serves reports whether the chain API is served in a shape.
func (c Config) serves(shape story.Shape) bool {
	return len(c.HTTP.Mounts) == 0 && c.Chain.Shape == shape || slices.ContainsFunc(c.HTTP.Mounts, func(m proxy.Mount) bool {
		return cmp.Or(m.Shape, c.Chain.Shape) == shape
	})
}
