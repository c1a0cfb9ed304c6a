#!/bin/sh
# Writes the types of both dialects' documents, src/story.ts and src/cosmos.ts.
# They are made of what the server would say, so they are not in the repository.
set -eu
cd "$(dirname "$0")"
for dialect in story cosmos; do
  (cd ../.. && go run -tags nomsgpack ./cmd/tipcache openapi --dialect "$dialect" --collections-auth closed) >"src/$dialect.json"
  ./node_modules/.bin/openapi-typescript "src/$dialect.json" -o "src/$dialect.ts" --default-non-nullable false
done
