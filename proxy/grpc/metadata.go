package grpc

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/tipcache/tipcache/upstream/heights"
)

// binarySuffix is the suffix of metadata names with binary values, which HTTP carries in base64.
const binarySuffix = "-bin"

// statedHeight returns the height in the metadata of a node, or 0 unless the metadata has a single one that the chain may have
// reached.
func (k *call) statedHeight(md metadata.MD) int64 {
	stated := md.Get(heightKey)
	if len(stated) != 1 {
		return 0
	}
	height, _ := strconv.ParseInt(stated[0], 10, 64)
	if height <= 0 || height >= heights.ImpossibleHeight || !k.reader.Nodes.Tip().Allows(height) || strconv.FormatInt(height, 10) != stated[0] {
		return 0
	}
	return height
}

// fromNode returns the metadata of a node that may be passed to the client, without a height that statedHeight ignores.
// gRPC-Web turns metadata into HTTP headers of the public origin, so only names that neither browsers nor proxies interpret
// are passed. gRPC passes all except the headers that nginx interprets.
func (k *call) fromNode(md metadata.MD) metadata.MD {
	_, web := k.stream.(*webStream)
	passed := metadata.MD{}
	for name, values := range md {
		passes := !strings.HasPrefix(name, "x-accel-")
		if web {
			passes = strings.HasPrefix(name, "x-cosmos-") || strings.HasSuffix(name, binarySuffix) || slices.Contains(k.o.WebMetadata, name)
		}
		if passes && (name != heightKey || k.statedHeight(md) > 0) {
			passed[name] = values
		}
	}
	return passed
}

// encoded returns a metadata value as HTTP carries it.
func encoded(name, value string) string {
	if strings.HasSuffix(name, binarySuffix) {
		return base64.RawStdEncoding.EncodeToString([]byte(value)) // unpadded, as gRPC servers send it
	}
	return value
}

var (
	metadataName = regexp.MustCompile(`^[a-z0-9_.-]+$`)
	// framing matches names that HTTP, CORS or gRPC-Web interpret in every response.
	framing = regexp.MustCompile(`^(access-control-.*|content-.*|grpc-(encoding|message|status)|cache-control|connection|date|keep-alive|te|trailer|transfer-encoding|upgrade|vary)$`)
)

// CheckWebMetadata returns an error if a name cannot be in Settings.WebMetadata.
func CheckWebMetadata(name string) error {
	switch {
	case !metadataName.MatchString(name):
		return fmt.Errorf("%q is not a metadata name: expected lower-case letters, digits, - _ and . only", name)
	case framing.MatchString(name):
		return fmt.Errorf("%s is reserved in responses of gRPC-Web, so a node cannot set it", name)
	}
	return nil
}
