package parts

import (
	"runtime/debug"
	"testing"

	"github.com/tipcache/tipcache/proxy/docs"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestBuildBetweenReleasesNamesCommit(t *testing.T) {
	build := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}
	for want, info := range map[string]*debug.BuildInfo{
		docs.Version:                         build("v"+docs.Version, revision),
		docs.Version + "+0123456789ab":       build("v1.2.4-0.20260101000000-0123456789ab", revision),
		docs.Version + "+0123456789ab.dirty": build("(devel)", revision, debug.BuildSetting{Key: "vcs.modified", Value: "true"}),
	} {
		expect.Equal(t, versionOf(info), want, "version")
	}
	expect.Equal(t, versionOf(nil), docs.Version, "version without build information")
}
