# SPDX-License-Identifier: MIT
#
# Models of core/ for spin, which tries every order of their steps: what they
# are and what is explored of them is said in each tests/model/*.pml.

.PHONY: model
model: | deps ## explore the models of core/: MODEL_NAME=remote
	@JOBS='$(JOBS)' tests/model/run $(BUILD) $(MODEL_NAME)

# In `make test`: small bounds, and one broken variant of each.
MODEL_JOBS = $(foreach m,$(patsubst tests/model/%.pml,%, \
	$(filter-out %/pages.pml,$(sort $(wildcard tests/model/*.pml)))), \
	$(call job,check,model $(m),600,make model MODEL_NAME=$(m),s,, \
	JOBS=1 tests/model/run -s $(BUILD) $(m)))
