// SPDX-License-Identifier: MIT OR Apache-2.0
// All of lend that a program with groups of ranks needs: it links liblend-group, too.
#pragma once

#include <lend/group/collective.hpp>
#include <lend/group/exchange.hpp>
#include <lend/group/group.hpp>
#include <lend/group/group_connector.hpp>
#include <lend/group/group_options.hpp>
#include <lend/group/group_scope.hpp>
#include <lend/group/peers.hpp>
#include <lend/group/prepared_group.hpp>
#include <lend/group/rank_card.hpp>
#include <lend/group/reductions.hpp>
#include <lend/group/team.hpp>
#include <lend/group/team_base.hpp>
#include <lend/group/uneven_calls.hpp>
#include <lend/group/values.hpp>
#include <lend/group/window.hpp>
#include <lend/launch/desk.hpp>
#include <lend/launch/roster.hpp>
#include <lend/launch/seat.hpp>
#include <lend/lend.hpp>
