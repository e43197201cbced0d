#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Renders deploy/chart as the plain manifests of deploy/kubernetes. usage: tools/manifests.sh OUTPUT_DIR
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=${GOCACHE:-$work/cache} GOFLAGS=-p=2
go build -o "$work/chart" tools/chart.go
echo '{mode: daemonset, monitors: {enabled: true}}' >"$work/node.yaml"
mkdir -p "$out"
render() { "$work/chart" deploy/chart "$1" sysom "${@:2}" >"$out/$(basename "$1")"; }
render templates/aggregator.yaml
render templates/sidecar.yaml
render templates/daemonset.yaml "$work/node.yaml"
render templates/monitors.yaml "$work/node.yaml"
render examples/training-pod.yaml
