# Where the fixture keeps things, and its ports. Sourced by build, start and stop.
# CLUSTER_DIR holds binaries, certificates, state and logs; PORT_OFFSET shifts every port.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${CLUSTER_DIR:-$here/.cluster}
bin=$dir/bin pki=$dir/pki run=$dir/run log=$dir/log
socket=$dir/ctd/sock
offset=${PORT_OFFSET:-0}
api_port=$((6443 + offset)) etcd_port=$((12379 + offset)) peer_port=$((12380 + offset)) kubelet_port=$((10250 + offset))
controller_port=$((10257 + offset)) scheduler_port=$((10259 + offset)) health_port=$((10248 + offset))
version=v1.34.4
