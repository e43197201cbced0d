# SPDX-License-Identifier: Apache-2.0
# Names for (Build ID, address).
